"""What happened: tables, queue, evidence and capability, over SQLAlchemy."""

OWNER = "kernel-farm"  # farm.own reads it: PyPI has other packages of these names

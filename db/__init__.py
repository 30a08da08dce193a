"""What happened: tables, queue, evidence and capability, over SQLAlchemy."""

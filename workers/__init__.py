"""Runs one case on one device: backends, isolation, protocol and the loop that pulls; no database."""

OWNER = "kernel-farm"  # farm.own reads it: PyPI has other packages of these names

"""Runs one case on one device: backends, isolation, protocol and the loop that pulls; no database."""

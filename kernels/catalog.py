"""Expands a selection to cases."""

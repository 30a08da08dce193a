"""Boards that don't exist, with planned faults: for trying the farm itself, never for a kernel's matrix."""

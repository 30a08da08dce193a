"""Plays a package of CuPy's."""

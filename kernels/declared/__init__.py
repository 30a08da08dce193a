"""Kernels that a user's catalog declares: a pack of files, TOML declarations, and kernels made of them."""

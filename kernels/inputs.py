"""Makes a case's inputs again from its seed, the same everywhere, as memory images."""

"""One file per backend, each with one constant BACKEND."""

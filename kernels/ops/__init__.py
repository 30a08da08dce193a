"""One folder per op: its OP, its kernels and their CUDA bodies."""

"""What is true about a kernel: kinds, ops, cases, plans, twins, oracle, comparison; numpy and gguf only."""

OWNER = "kernel-farm"  # farm.own reads it: PyPI has other packages of these names

"""What is true about a kernel: kinds, ops, cases, plans, twins, oracle and comparison; numpy and gguf only."""

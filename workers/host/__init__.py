"""Executes CUDA C text on the CPU: compiler driver, loader, guarded memory and the runtime that they share."""

"""Executes CUDA C text on the CPU: compiler driver, loader, guarded memory and a runtime."""

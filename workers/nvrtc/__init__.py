"""NVIDIA's runtime compiler as a tool: compile to a cubin, read what came out, no driver needed."""

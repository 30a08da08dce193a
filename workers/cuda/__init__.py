"""What the backend `cuda` is made of: the vendor seam, memory, errors, and the probe for boards."""

"""One file per kind whose weights are small integers times a scale, each with one constant INTS."""

"""One file per weight layout that isn't GGML's, each with one constant LAYOUT; the registry finds them."""

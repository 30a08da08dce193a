"""One file per quantized weight format, each with one constant KIND."""

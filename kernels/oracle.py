"""float64 truth from an independent decoder, the `gguf` package."""

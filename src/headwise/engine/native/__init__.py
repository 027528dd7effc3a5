"""Native engine: inference and search of a Transformer in C++, tested against the PyTorch engine."""

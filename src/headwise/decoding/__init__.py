"""The PyTorch engine: search, sampling and forced decoding."""

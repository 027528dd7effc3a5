"""Training batches, as torch tensors: sentence pairs, labelled sequences, windows, and masked or corrupted text."""

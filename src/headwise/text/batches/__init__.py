"""Training batches: sentence pairs, labelled sequences, windows of text, and masked or corrupted text."""

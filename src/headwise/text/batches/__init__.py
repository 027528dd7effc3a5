"""Training batches of sentence pairs, rows and windows, with masked and corrupted text."""

"""Tasks of the training loop: each brings a model, its batches, its loss and its scores together."""

"""The tasks that the loop learns: each brings a model, its batches, its loss and its scores together for the training loop."""

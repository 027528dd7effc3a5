"""Tasks of the training loop: each combines a model with its data, batches, loss and metrics."""

"""From images to batches: reading, splitting, normalization, batching and augmentation, independent of any model."""

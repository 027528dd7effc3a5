"""From images to batches: read, split, normalized, batched and augmented. No model is known here."""

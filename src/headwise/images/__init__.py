"""Images as data: read, split, normalized, batched and augmented. No model is known here."""

"""Text in, batches of ids out: reading files, tokens, prepared datasets, batches. No model is known here."""

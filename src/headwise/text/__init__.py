"""From text to batches of ids: reading files, tokens, prepared datasets, batches. No model is known here."""

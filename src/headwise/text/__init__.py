"""The text pipeline: file readers, tokenizers, prepared datasets and batches of ids. Independent of any model."""

"""Text in, batches of ids out: corpora, subwords, the memory-mapped store, the built-in miniature language."""

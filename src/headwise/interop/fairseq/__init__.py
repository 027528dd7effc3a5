"""fairseq checkpoints."""

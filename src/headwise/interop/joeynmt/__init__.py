"""JoeyNMT checkpoints."""

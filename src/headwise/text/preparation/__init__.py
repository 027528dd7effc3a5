"""Preparation of text for training: read, cleaned, split, encoded and stored once, in memory-mapped arrays."""

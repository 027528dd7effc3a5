"""Subwords, characters and words, and the ids they have."""

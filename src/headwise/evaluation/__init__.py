"""Scores and their significance: how good translations and alignments are, and whether a difference is chance."""

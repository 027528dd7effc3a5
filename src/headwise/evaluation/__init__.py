"""How good translations and alignments are, and whether a difference is more than chance."""

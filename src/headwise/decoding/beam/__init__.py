"""Parts of the beam search: hypotheses, their selection, constraints on them, and the tree they form."""

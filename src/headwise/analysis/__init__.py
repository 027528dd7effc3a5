"""Looking inside a trained model: attention, heads, alignments, pictures."""

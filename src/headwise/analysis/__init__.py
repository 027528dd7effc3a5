"""Looking inside a trained model: attention, alignments, pictures."""

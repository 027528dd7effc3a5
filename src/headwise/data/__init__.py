"""Data of any kind: ragged arrays, prepared folders, plans of batches and streams that resume."""

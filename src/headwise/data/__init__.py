"""Data of any kind: ragged arrays, prepared folders, batch plans and resumable streams of batches."""

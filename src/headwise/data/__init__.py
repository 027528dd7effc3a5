"""What text and images share: ragged arrays, prepared folders, plans of batches and streams that resume."""

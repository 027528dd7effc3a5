"""Several serving processes: what they share, the parent that starts and replaces them, and one of them."""

"""Preparation of corpora that are larger than memory, in processes of one machine or of a cluster."""

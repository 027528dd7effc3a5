"""Datasets prepared once and memory-mapped: sentence pairs, running text and labelled examples."""

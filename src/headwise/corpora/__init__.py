"""Corpora: public downloads, the built-in miniature English-German corpus, and synthetic data sets."""

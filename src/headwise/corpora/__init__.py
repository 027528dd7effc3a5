"""Corpora: public downloads, the built-in English-German text, and generated data sets."""

"""Tokenizers and vocabularies: subwords, characters and words."""

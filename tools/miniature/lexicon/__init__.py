"""The lexicon of the miniature corpus: lemmas with their grammatical features."""

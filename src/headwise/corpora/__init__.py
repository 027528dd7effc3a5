"""Corpora to learn from: public ones that are downloaded, the built-in miniature language, and synthetic exercises."""

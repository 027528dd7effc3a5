"""Markup and text that must not change: what is translated of a document, and where its tags go in the translation."""

"""Readers of text files: lines, sentence pairs, records and dependency trees, with cleaning."""

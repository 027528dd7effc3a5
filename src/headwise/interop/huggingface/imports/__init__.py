"""Importers of the kinds of models of `transformers`: one module for each, with a function `read`."""

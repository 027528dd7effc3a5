"""Exporters of the kinds of models of `transformers`: one module for each, with a class `Exporter`."""

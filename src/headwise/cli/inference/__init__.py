"""Subcommands for inference: translation, scoring, prediction, generation, evaluation, serving."""

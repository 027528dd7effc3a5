"""Subcommands for the analysis of models."""

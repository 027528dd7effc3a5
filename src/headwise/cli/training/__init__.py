"""Subcommands for data, training, and conversion of trained runs."""

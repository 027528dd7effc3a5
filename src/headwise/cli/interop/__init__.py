"""Subcommands that bring models in from other toolkits, and out."""

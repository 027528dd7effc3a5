"""Runs that are part of the package."""

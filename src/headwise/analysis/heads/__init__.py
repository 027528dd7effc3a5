"""Attention heads: their roles, their importance, and pruning."""

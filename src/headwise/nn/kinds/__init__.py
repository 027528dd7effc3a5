"""Attention kinds, one per file. Importing a file registers its kind: a new kind is a file and its name here."""

from headwise.nn.kinds import block_sparse, linear, memory_efficient, state_space, unscaled, window

__all__ = ["block_sparse", "linear", "memory_efficient", "state_space", "unscaled", "window"]

"""Kinds of attention, one a file. Importing a file registers its kind: a new kind is a file and a name here."""

from headwise.nn.kinds import block_sparse, linear, memory_efficient, state_space, window

__all__ = ["block_sparse", "linear", "memory_efficient", "state_space", "window"]

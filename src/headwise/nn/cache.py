"""Caches of decoding: each step computes keys and values of its own token only, or advances a recurrence."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Cache(Protocol):
    """Interface of the decoding caches: the number of cached positions, and the reordering of beams."""

    length: int

    def select(self, rows: Tensor) -> None:
        """Reorder the cache: its row r becomes what row rows[r] was."""
        ...


class RecurrentCache:
    """Cache of constant size: the state of a recurrence after all positions so far, in which `dim` is that of rows."""

    def __init__(self, dim: int = 0) -> None:
        self.length, self.dim = 0, dim
        self.state: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Reorder the cache: its row r becomes what row rows[r] was."""
        if self.state is not None:
            self.state = self.state.index_select(self.dim, rows)


class KeyValueCache:
    """Keys and values of all past positions, in buffers that at least double when they are full.

    keys (rows, heads, capacity, d_k) and values (rows, heads, capacity, d_v), rows = sentences × beams; the first
    `length` positions are filled.
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffers: list[Tensor] = []  # keys and values

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append new positions (rows, heads, new, d); returns views of all keys and all values so far."""
        end = self.length + keys.size(2)
        if not self._buffers:
            self._buffers = [keys.new_empty(keys.shape), values.new_empty(values.shape)]
        elif end > self._buffers[0].size(2):
            self._buffers = [self._grown(buffer, end) for buffer in self._buffers]
        for buffer, new in zip(self._buffers, (keys, values), strict=True):
            buffer[:, :, self.length : end] = new
        self.length = end
        keys, values = (buffer[:, :, :end] for buffer in self._buffers)
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Reorder the cache: its row r becomes what row rows[r] was."""
        self._buffers = [self._selected(buffer, rows) for buffer in self._buffers]

    def _selected(self, old: Tensor, rows: Tensor) -> Tensor:
        chosen = old[:, :, : self.length].index_select(0, rows)
        new = old if rows.numel() == old.size(0) else old.new_empty((rows.numel(), *old.shape[1:]))
        new[:, :, : self.length] = chosen
        return new

    def _grown(self, old: Tensor, length: int) -> Tensor:
        rows, heads, capacity, size = old.shape
        new = old.new_empty((rows, heads, max(length, 2 * capacity), size))
        new[:, :, : self.length] = old[:, :, : self.length]
        return new

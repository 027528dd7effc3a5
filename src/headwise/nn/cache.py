"""Key/value cache: each decoding step computes keys and values of its own token only."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Cache(Protocol):
    """Interface of the decoding caches: the number of cached positions, and the reordering of beams."""

    length: int

    def select(self, rows: Tensor) -> None:
        """Reorder the cache: its row r becomes what row rows[r] was."""
        ...


class KeyValueCache:
    """Keys and values of all past positions, in preallocated buffers.

    keys (rows, heads, capacity, d_k) and values (rows, heads, capacity, d_v), rows = sentences × beams; the first
    `length` positions are filled. The buffers at least double when they are full.
    """

    def __init__(self, capacity: int = 32) -> None:
        self.capacity = max(capacity, 1)
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append new positions (rows, heads, new, d); returns views of all keys and all values so far."""
        new = keys.size(2)
        if self._keys is None or self._values is None:
            self._keys = self._empty_like(keys)
            self._values = self._empty_like(values)
        end = self.length + new
        if end > self.capacity:
            self.capacity = max(end, 2 * self.capacity)
            self._keys = self._grown(self._keys)
            self._values = self._grown(self._values)
        self._keys[:, :, self.length : end] = keys
        self._values[:, :, self.length : end] = values
        self.length = end
        return self._keys[:, :, :end], self._values[:, :, :end]

    def select(self, rows: Tensor) -> None:
        """Reorder the cache: its row r becomes what row rows[r] was."""
        if self._keys is None or self._values is None:
            return
        self._keys = self._selected(self._keys, rows)
        self._values = self._selected(self._values, rows)

    def _selected(self, old: Tensor, rows: Tensor) -> Tensor:
        chosen = old[:, :, : self.length].index_select(0, rows)
        new = old if rows.numel() == old.size(0) else old.new_empty((rows.numel(), *old.shape[1:]))
        new[:, :, : self.length] = chosen
        return new

    def _empty_like(self, part: Tensor) -> Tensor:
        rows, heads, _, size = part.shape
        return part.new_empty((rows, heads, self.capacity, size))

    def _grown(self, old: Tensor) -> Tensor:
        rows, heads, _, size = old.shape
        new = old.new_empty((rows, heads, self.capacity, size))
        new[:, :, : self.length] = old[:, :, : self.length]
        return new

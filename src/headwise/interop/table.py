"""A table of parameters: ours beside another toolkit's, read in both directions.

A row says under which name the other toolkit keeps a parameter of ours, or several that it joins, and how its layout
differs. An importer reads the rows from theirs to ours, an exporter from ours to theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from headwise.errors import CheckpointError
from headwise.interop.base import Array

Read: TypeAlias = Callable[[], Array]


def _transposed(tensor: Array) -> Array:
    return tensor.T if tensor.ndim == 2 else tensor


@dataclass(frozen=True)
class Change:
    """How a tensor changes: `inward` on its way from their layout to ours, `outward` on its way back."""

    inward: Callable[[Array], Array] = lambda tensor: tensor
    outward: Callable[[Array], Array] = lambda tensor: tensor

    def then(self, other: Change) -> Change:
        """Return this change and then, on the way in, another."""
        return Change(
            lambda tensor: other.inward(self.inward(tensor)),
            lambda tensor: self.outward(other.outward(tensor)),
        )


# The change of a tensor that has a row for each word, by its name there.
Changes: TypeAlias = Callable[[str], Change]

SAME = Change()
TRANSPOSED = Change(_transposed, _transposed)  # of matrices
# Of a vector that is a matrix of one row there.
VECTOR = Change(lambda tensor: tensor[0] if tensor.ndim == 2 else tensor, lambda tensor: tensor[None])


def times(factor: float) -> Change:
    """Return the change of a parameter that is so much larger here."""
    return Change(lambda tensor: tensor * factor, lambda tensor: tensor / factor) if factor != 1.0 else SAME


@dataclass(frozen=True)
class Row:
    """A parameter.

    Attributes:
        ours: our name; several names where their tensor has ours one below the other, after the change.
        theirs: their name; None where they have no such tensor, and ours is zero.
        change: what is done to their tensor, or to ours.
        zeros: the shape of ours where theirs has none, and of what they get where our model lacks the parameter.
        copies: further names under which a file may have their tensor, because it is tied to others.
    """

    ours: str | tuple[str, ...]
    theirs: str | None
    change: Change = SAME
    zeros: tuple[int, ...] = ()
    copies: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


def both(modules: Mapping[str, str], change: Change = SAME, zeros: tuple[int, ...] = ()) -> list[Row]:
    """Return the rows of the weight and the bias of modules, by our names of them."""
    return [
        Row(f"{ours}.{part}", f"{theirs}.{part}", change, zeros)
        for ours, theirs in modules.items()
        for part in ("weight", "bias")
    ]


class Left:
    """The tensors of a file or directory that haven't been taken yet."""

    def __init__(self, place: object, tensors: Mapping[str, Read], kind: str = "tensor") -> None:
        self._place, self._kind = place, kind
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def peek(self, name: str) -> Read:
        """Return a tensor that is left; raises `CheckpointError` if there is none of that name."""
        if name not in self._left:
            raise CheckpointError(f"{self._place}: expected {self._kind} {name}, found none of that name")
        return self._left[name]

    def take(self, name: str, copies: Iterable[str] = ()) -> Read:
        """Take a tensor with its copies; raises `CheckpointError` if there is none, or if a copy differs from it."""
        for copy in copies:
            if copy in self._left and name not in self._left:
                self._left[name] = self._left.pop(copy)
            elif copy in self._left:
                equal = self.equal(copy, name)
                del self._left[copy]
                if not equal:
                    raise CheckpointError(
                        f"{self._place}: expected {copy} to equal {name}, which it is tied to, found other numbers"
                    )
        read = self.peek(name)
        del self._left[name]
        return read

    def take_rows(self, rows: Iterable[Row]) -> dict[str, Read]:
        """Take the parameters of a table, by our names; each is read and changed when it is called."""
        found: dict[str, Read] = {}
        for row in rows:
            names = row.names
            if row.theirs is None:
                found |= dict.fromkeys(names, partial(np.zeros, row.zeros, np.float32))
                continue
            read = self.take(row.theirs, row.copies)
            for number, name in enumerate(names):
                found[name] = partial(_part, read, row.change, number, len(names))
        return found

    def drop(self, *prefixes: str) -> None:
        """Leave out the tensors whose name begins so."""
        self._left = {name: read for name, read in self._left.items() if not name.startswith(prefixes)}

    def equal(self, first: str, second: str) -> bool:
        """Whether two tensors are equal; raises `CheckpointError` if one is missing."""
        return np.array_equal(self.peek(first)(), self.peek(second)())

    def finish(self) -> None:
        """Raise `CheckpointError` if a tensor is left."""
        if self._left:
            raise CheckpointError(
                f"{self._place}: found {self._kind} {min(self._left)}, which Headwise has no place for"
            )


def _part(read: Read, change: Change, number: int, count: int) -> Array:
    """Read a tensor, and return one of the equal parts of which it consists."""
    tensor = change.inward(read())
    return tensor if count == 1 or not tensor.ndim else np.array_split(tensor, count)[number].copy()


def their_tensors(rows: Iterable[Row], get: Callable[[str], Array | None]) -> dict[str, Array]:
    """Return the tensors of a table by their names; `get` returns a parameter of ours, None if the model lacks it."""
    tensors: dict[str, Array] = {}
    for row in rows:
        if row.theirs is None:
            continue
        found = [get(name) for name in row.names]
        parts = [np.zeros(row.zeros, np.float32) if part is None else part for part in found]
        assert row.zeros or not any(part is None for part in found), row.names
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        tensors[row.theirs] = row.change.outward(joined)
    return tensors

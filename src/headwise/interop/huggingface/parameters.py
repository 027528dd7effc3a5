"""Parameters of a model of `transformers`, taken by name until none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.interop.tensors import folder_tensors

Read = Callable[[], Tensor]


class Parameters:
    """The tensors of a directory that haven't been taken yet."""

    def __init__(self, source: Path, rename: Callable[[str], str] = lambda name: name) -> None:
        """List the tensors; `rename` gives the current form of a name of an older version."""
        self._source = source
        self._left = {rename(name): read for name, read in folder_tensors(source).items()}

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Read:
        """Take a tensor; raises `CheckpointError` if there is none of that name."""
        if name not in self._left:
            raise CheckpointError(f"{self._source}: expected tensor {name}, found none of that name")
        return self._left.pop(name)

    def take_all(self, names: Mapping[str, str]) -> dict[str, Read]:
        """Take the tensors of these names, which are Headwise's beside theirs."""
        return {ours: self.take(theirs) for ours, theirs in names.items()}

    def drop(self, prefixes: Iterable[str]) -> bool:
        """Leave out the tensors whose name begins so, and say whether there were any."""
        dropped = [name for name in self._left if name.startswith(tuple(prefixes))]
        for name in dropped:
            del self._left[name]
        return bool(dropped)

    def drop_copy(self, copy: str, original: str) -> None:
        """Leave out a tensor that is stored twice; raises `CheckpointError` if it differs from the original."""
        if copy not in self._left:
            return
        equal = self.equal(copy, original)
        del self._left[copy]
        if not equal:
            raise CheckpointError(
                f"{self._source}: expected {copy} to equal {original}, which it is tied to, found other numbers"
            )

    def equal(self, first: str, second: str) -> bool:
        """Whether two tensors are equal; raises `CheckpointError` if the second is missing."""
        read = self.take(second)
        self._left[second] = read
        return torch.equal(self._left[first](), read())

    def finish(self) -> None:
        """Raise `CheckpointError` if a tensor is left."""
        if self._left:
            raise CheckpointError(
                f"{self._source}: found tensor {min(self._left)}, which Headwise has no place for"
            )


def changed(read: Read, change: Callable[..., Tensor], *arguments: Any) -> Read:
    """Return a tensor that is changed after it is read: `change(tensor, *arguments)`."""
    return partial(_changed, read, change, arguments)


def _changed(read: Read, change: Callable[..., Tensor], arguments: tuple[Any, ...]) -> Tensor:
    return change(read(), *arguments)

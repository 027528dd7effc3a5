"""Where a stream of batches stands, as a checkpoint keeps it: checked before a stream goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from headwise.errors import CheckpointError


def read_position(
    state: Mapping[str, Any], identity: Mapping[str, Any], what: str = "batches"
) -> tuple[int, int]:
    """Return the epoch and the index in it of the next batch, from a position in `what` of this `identity`.

    Raises `CheckpointError` where it is one in other batches, or isn't a position.
    """
    for name, own in identity.items():
        if state.get(name) != own:
            raise CheckpointError(
                f"training can't go on in the middle of an epoch: the checkpoint's {what} were planned with "
                f"{name}={state.get(name)}, found {name}={own}"
            )
    epoch, index = state.get("epoch"), state.get("index")
    for name, number in (("epoch", epoch), ("index", index)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CheckpointError(
                f"the checkpoint's position: expected a whole number of at least 0 as {name}, found {number!r}"
            )
    assert isinstance(epoch, int)
    assert isinstance(index, int)
    return epoch, index


def check_index(index: int, plan: Sized, epoch: int) -> None:
    """Raise `CheckpointError` where an epoch has no batch of this index."""
    if index >= len(plan):
        raise CheckpointError(
            f"the checkpoint's position: expected one of the {len(plan):,} batches of epoch {epoch}, found {index}"
        )

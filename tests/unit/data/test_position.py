"""The position of a stream is validated before it is restored, because it may come from another program's file."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from headwise.data.stream import check_index, read_position
from headwise.errors import CheckpointError
from headwise.images.batches import draws
from headwise.tasks.batches.examples import RowBatch, make_rows, row_stream

IDENTITY = {"seed": 1, "data": "abc"}


def test_a_position_is_read() -> None:
    assert read_position({"epoch": 2, "index": 7, **IDENTITY}, IDENTITY) == (2, 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 2}, "the checkpoint's windows were planned with seed=2, found seed=1"),
        ({"data": None}, "planned with data=None, found data=abc"),
        ({"epoch": -1}, "expected a whole number of at least 0 as epoch, found -1"),
        ({"index": -1}, "at least 0 as index, found -1"),
        ({"index": 1.5}, "at least 0 as index, found 1.5"),
        ({"index": "3"}, "at least 0 as index, found '3'"),
        ({"epoch": True}, "at least 0 as epoch, found True"),
        ({"epoch": None}, "at least 0 as epoch, found None"),
    ],
)
def test_what_is_no_position_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=re.escape(message)):
        read_position({"epoch": 0, "index": 0, **IDENTITY, **changes}, IDENTITY, "windows")


def test_an_epoch_has_so_many_batches() -> None:
    check_index(4, range(5), 3)
    with pytest.raises(CheckpointError, match="one of the 5 batches of epoch 3, found 5"):
        check_index(5, range(5), 3)


def make(_: int, rows: np.ndarray, random: np.random.Generator) -> RowBatch:
    return make_rows([[row] for row in rows], [[0] for _ in rows], rows.tolist())


def test_streams_refuse_a_batch_that_an_epoch_does_not_have() -> None:
    streams = (
        row_stream(lambda _: np.ones(9, np.int64), make, 3, seed=1, identity={}),
        draws(9, 3, lambda rows, random: rows, seed=1, identity={}),
    )
    for stream in streams:
        epoch = []
        while not stream.epoch:
            epoch.append(next(stream))
        stream.load_state({**stream.state(), "epoch": 0, "index": len(epoch) - 1})
        next(stream)
        stream.load_state({**stream.state(), "epoch": 0, "index": len(epoch)})
        sentence = f"one of the {len(epoch)} batches of epoch 0, found {len(epoch)}"
        with pytest.raises(CheckpointError, match=sentence):
            next(stream)

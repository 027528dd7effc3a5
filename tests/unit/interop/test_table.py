"""A table of parameters gives back, on the way in, what it was given on the way out; and names what doesn't fit."""

from __future__ import annotations

import numpy as np
import pytest

from headwise.errors import CheckpointError
from headwise.interop.base import Array
from headwise.interop.residual import reordered
from headwise.interop.table import TRANSPOSED, Change, Left, Row, both, their_tensors, times

ORDER = np.array([2, 0, 1])
ROWS = [
    Row(("query", "key", "value"), "attn.c_attn", TRANSPOSED),
    Row("words", "wte", Change(lambda t: t[ORDER.argsort()], lambda t: t[ORDER]), copies=("lm_head",)),
    Row("scaled", "q", times(4.0)),
    Row("x.w1.weight", "fc1", reordered("x.w1.weight")),
    *both({"norm": "ln"}, zeros=(5,)),
    Row("ours alone", None, zeros=(2,)),
]


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def ours() -> dict[str, Array]:
    names = {"query": (4, 6), "key": (4, 6), "value": (4, 6), "words": (3, 6), "scaled": (4, 4)}
    tensors = {name: drawn(*shape) for name, shape in (names | {"x.w1.weight": (5, 6)}).items()}
    return tensors | {"norm.weight": drawn(5), "ours alone": np.zeros(2, np.float32)}


def test_out_and_in_again_changes_no_bit() -> None:
    mine = ours()
    theirs = their_tensors(ROWS, mine.get)
    assert theirs.keys() == {"attn.c_attn", "wte", "q", "fc1", "ln.weight", "ln.bias"}
    np.testing.assert_array_equal(theirs["attn.c_attn"][:, 4:8], mine["key"].T)
    np.testing.assert_array_equal(theirs["fc1"][:, :3], mine["x.w1.weight"][:, ::2])
    assert not theirs["ln.bias"].any()  # which our model lacks
    left = Left("here", {name: lambda t=tensor: t for name, tensor in theirs.items()})
    back = {name: read() for name, read in left.take_rows(ROWS).items()}
    left.finish()
    assert back.keys() == mine.keys() | {"norm.bias"}
    for name, tensor in mine.items():
        np.testing.assert_array_equal(back[name], tensor)


def test_a_copy_stands_in_for_what_it_is_tied_to_and_must_equal_it() -> None:
    row = [row for row in ROWS if row.ours == "words"]
    tensor = drawn(3, 6)
    for names in (("wte",), ("lm_head",), ("wte", "lm_head")):
        left = Left("here", {name: lambda: tensor for name in names})
        np.testing.assert_array_equal(left.take_rows(row)["words"](), tensor[ORDER.argsort()])
        left.finish()
    left = Left("here", {"wte": lambda: tensor, "lm_head": lambda: tensor + 1})
    with pytest.raises(CheckpointError, match="here: expected lm_head to equal wte, which it is tied to"):
        left.take_rows(row)


def test_what_is_missing_or_left_over_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"here: expected array q, found none of that name"):
        Left("here", {}, "array").take_rows([Row("scaled", "q")])
    with pytest.raises(CheckpointError, match="here: found array more, which Headwise has no place for"):
        Left("here", {"more": lambda: drawn(1)}, "array").finish()

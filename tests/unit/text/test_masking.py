"""Masking for masked language modeling, and splitting of texts into examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.tasks.batches.masking import Masking, cut_documents, cut_running
from headwise.text.tokens.subwords import BOS, EOS

MASKING = Masking(symbol=4, first=5, size=1000)


def test_shares_are_berts() -> None:
    """15 % of the tokens; of these 80 % masked, 10 % random, 10 % unchanged (within 4 standard deviations)."""
    ids = np.arange(5, 995).repeat(50)
    inputs, targets = MASKING.hide(ids, np.random.default_rng(1))
    assert (inputs[0], inputs[-1]) == (BOS, EOS)
    assert (targets[0], targets[-1]) == (-1, -1)
    chosen, inside = targets[1:-1] >= 0, inputs[1:-1]
    count, number = chosen.sum(), len(ids)
    assert abs(count / number - 0.15) < 4 * (0.15 * 0.85 / number) ** 0.5
    assert (targets[1:-1][chosen] == ids[chosen]).all()
    assert (inside[~chosen] == ids[~chosen]).all()
    masked, same = inside[chosen] == 4, inside[chosen] == ids[chosen]
    other = inside[chosen][~masked & ~same]
    for share, found in ((0.8, masked.sum()), (0.1, same.sum()), (0.1, len(other))):
        assert abs(found / count - share) < 4 * (share * (1 - share) / count) ** 0.5
    assert other.min() >= 5
    assert other.max() < 1000
    assert len(set(other.tolist())) > 300


@given(st.integers(1, 40), st.integers(0, 1000))
def test_something_is_hidden_and_the_same_again(length: int, seed: int) -> None:
    ids = np.arange(5, 5 + length)
    inputs, targets = MASKING.hide(ids, np.random.default_rng(seed))
    assert (targets >= 0).any()
    again = MASKING.hide(ids, np.random.default_rng(seed))
    assert (inputs == again[0]).all()
    assert (targets == again[1]).all()


def test_the_next_reading_hides_others() -> None:
    random, ids = np.random.default_rng(1), np.arange(5, 105)
    assert (MASKING.hide(ids, random)[1] != MASKING.hide(ids, random)[1]).any()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=10), st.integers(1, 9))
def test_documents_are_cut_without_a_rest(lengths: list[int], longest: int) -> None:
    offsets = np.cumsum([0, *(length + 1 for length in lengths)])  # each ends with EOS
    parts = cut_documents(offsets, longest)
    covered = [i for start, end in parts.tolist() for i in range(start, end)]
    ends = set((offsets[1:] - 1).tolist())
    assert covered == [i for i in range(int(offsets[-1])) if i not in ends]
    sizes = (parts[:, 1] - parts[:, 0]).tolist()
    assert all(1 <= size <= longest for size in sizes)
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        own = [b - a for a, b in parts.tolist() if start <= a < end]
        assert not own or max(own) - min(own) <= 1


@given(st.integers(1, 200), st.integers(1, 50), st.data())
def test_running_text_is_cut_without_a_rest(tokens: int, length: int, data: st.DataObject) -> None:
    shift = data.draw(st.integers(0, length - 1))
    parts = cut_running(tokens, length, shift)
    assert [i for start, end in parts.tolist() for i in range(start, end)] == list(range(tokens))
    assert (parts[:, 1] - parts[:, 0]).max() <= length
    if shift:
        assert parts[0, 1] == min(shift, tokens)


def test_shares_that_are_too_much() -> None:
    with pytest.raises(ConfigError, match=r"at most 1 together, found 0\.8 and 0\.3"):
        Config.from_tree({"task": "masked_language_model", "masked_language_model": {"random": 0.3}})

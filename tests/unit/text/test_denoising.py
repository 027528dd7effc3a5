"""Span corruption and text infilling against the definitions in the papers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.config.tasks import DenoisingConfig
from headwise.tasks.batches.denoising import Damage, corrupt_spans, infill, make_pairs, symbol_names

SENTINELS = tuple(range(4, 200))
lengths, seeds = st.integers(2, 200), st.integers(0, 2**32 - 1)
shares, spans = st.floats(0.01, 0.9), st.floats(1.0, 8.0)


def restored(source: list[int], target: list[int]) -> list[int]:
    """Return `source` with each sentinel replaced by the tokens that follow it in `target`."""
    spans: dict[int, list[int]] = {}
    for token in target:
        if token in SENTINELS:
            spans[token] = []
        else:
            spans[list(spans)[-1]].append(token)
    return [piece for token in source for piece in (spans[token] if token in SENTINELS else [token])]


@given(lengths, shares, spans, seeds)
def test_span_corruption_can_be_undone(length: int, share: float, mean: float, seed: int) -> None:
    ids = np.arange(1000, 1000 + length)
    source, target = corrupt_spans(ids, SENTINELS, share, mean, np.random.default_rng(seed))
    assert restored(source.tolist(), target.tolist()) == ids.tolist()
    removed = [i for i in target if i >= 1000]
    assert len(removed) == min(max(round(share * length), 1), length - 1)
    marks = [i for i in source if i < 1000]
    assert marks == list(SENTINELS[: len(marks)])  # each once, in order
    assert [i for i in target if i < 1000] == [*marks, SENTINELS[len(marks)]]
    positions = [place for place, i in enumerate(source) if i < 1000]
    assert all(b - a > 1 for a, b in itertools.pairwise(positions))  # spans don't touch
    names = symbol_names(DenoisingConfig(share=share, mean_span=mean), length)
    assert len(names) == len(marks) + 1


@given(lengths, shares, spans, seeds)
def test_infilling_hides_spans_and_keeps_the_rest_in_order(length: int, share: float, mean: float, seed: int) -> None:
    ids = np.arange(1000, 1000 + length)
    source, target = infill(ids, 4, share, mean, np.random.default_rng(seed))
    assert target.tolist() == ids.tolist()
    kept = source[source != 4]
    assert (np.diff(kept) > 0).all()
    assert set(kept.tolist()) <= set(ids.tolist())
    assert length - len(kept) <= round(share * length)
    assert len(source) <= length + 1  # what the check of denoising.window leaves room for
    pieces = "".join("m" if i == 4 else "t" for i in source)
    assert "mm" not in pieces
    # Wherever tokens are missing, there is a mask.
    whole = [999, *source.tolist(), 1000 + length]
    tokens = [i for i in whole if i != 4]
    for before, after in itertools.pairwise(tokens):
        if after - before > 1:
            assert whole[whole.index(before) + 1] == 4


def test_amounts_are_those_of_the_papers() -> None:
    """T5: 15 % of 512 tokens in spans of 3; BART: Poisson lengths with mean 3, some of them empty."""
    random = np.random.default_rng(1)
    source, target = corrupt_spans(np.arange(1000, 1512), SENTINELS, 0.15, 3.0, random)
    assert (source < 1000).sum() == 26
    assert (target >= 1000).sum() == 77
    hidden, masks = 0, 0
    for _ in range(200):
        source, _ = infill(np.arange(1000, 1200), 4, 0.3, 3.0, random)
        hidden += 200 - int((source != 4).sum())
        masks += int((source == 4).sum())
    assert hidden / 200 == pytest.approx(60, abs=1)
    assert hidden / masks == pytest.approx(3.0, rel=0.1)


def test_batches_are_padded_and_shifted() -> None:
    batch = make_pairs([(np.array([10, 4, 11]), np.array([4, 12, 5])), (np.array([13]), np.array([14]))], [0, 7])
    assert batch.source.tolist() == [[10, 4, 11, 3], [13, 3, 0, 0]]
    assert torch.equal(batch.source_mask, batch.source != 0)
    assert batch.target_output.tolist() == [[4, 12, 5, 3], [14, 3, 0, 0]]
    assert batch.target_input.tolist() == [[2, 4, 12, 5], [2, 14, 0, 0]]
    assert batch.target_tokens == 6


def test_the_kind_of_damage_is_an_option() -> None:
    ids, random = np.arange(1000, 1040), np.random.default_rng(0)
    source, target = Damage(DenoisingConfig(corruption="infilling", share=0.3), (4,))(ids, random)
    assert 4 in source
    assert target.tolist() == ids.tolist()
    assert symbol_names(DenoisingConfig(corruption="infilling"), 40) == ["<mask>"]
    assert symbol_names(DenoisingConfig(), 40) == ["<span0>", "<span1>", "<span2>"]

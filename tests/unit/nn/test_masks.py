"""Masks against their definitions: True = may attend."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.nn.masks import causal_mask, combine, padding_mask, without_end


def test_padding_mask_lets_every_query_see_the_real_tokens() -> None:
    keep = torch.tensor([[True, True, False], [True, False, False]])
    mask = padding_mask(keep)
    assert mask.shape == (2, 1, 1, 3)
    assert mask.dtype == torch.bool
    assert torch.equal(mask.expand(2, 4, 5, 3)[:, 3, 4], keep)


@given(st.integers(1, 12), st.integers(0, 12))
def test_causal_mask(queries: int, earlier: int) -> None:
    """Query i is at position earlier + i, and attends to positions up to its own."""
    keys = earlier + queries
    mask = causal_mask(queries, keys)
    assert mask.shape == (1, 1, queries, keys)
    assert mask.dtype == torch.bool
    for query in range(queries):
        assert mask[0, 0, query].tolist() == [key <= earlier + query for key in range(keys)]
    if not earlier:
        assert torch.equal(mask, causal_mask(queries))


def test_without_end_drops_the_last_real_token_unless_it_is_the_only_one() -> None:
    keep = torch.tensor([[True, True, True], [True, True, False], [True, False, False], [False, False, False]])
    expected = [[True, True, False], [True, False, False], [True, False, False], [False, False, False]]
    assert without_end(keep).tolist() == expected


def test_causal_mask_is_made_on_the_device_asked_for() -> None:
    assert causal_mask(3, device=torch.device("meta")).is_meta


def test_combine() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.rand(shape, generator=generator) < 0.5 for shape in ((2, 3, 1, 5), (1, 1, 4, 5)))
    assert combine(None, None) is None
    assert combine(None, a) is combine(a, None) is a
    joined = combine(a, b)
    assert joined is not None
    assert joined.shape == (2, 3, 4, 5)
    assert torch.equal(joined, torch.stack([x.expand(2, 3, 4, 5) for x in (a, b)]).all(0))

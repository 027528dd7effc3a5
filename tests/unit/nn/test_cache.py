"""The key/value cache against plain concatenation."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.nn.cache import KeyValueCache


@settings(deadline=None)
@given(st.data())
def test_any_sequence_of_operations_equals_concatenation(data: st.DataObject) -> None:
    heads, d_k, d_v = 2, 3, 5
    rows = data.draw(st.integers(1, 4))
    cache = KeyValueCache()
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.zeros(rows, heads, 0, d_k), torch.zeros(rows, heads, 0, d_v)
    for operation in data.draw(st.lists(st.sampled_from(["append", "append", "select"]), max_size=12)):
        if operation == "append":
            new = data.draw(st.integers(1, 3))
            more_keys = torch.randn(rows, heads, new, d_k, generator=generator)
            more_values = torch.randn(rows, heads, new, d_v, generator=generator)
            keys, values = torch.cat([keys, more_keys], 2), torch.cat([values, more_values], 2)
            found = cache.append(more_keys, more_values)
            assert torch.equal(found[0], keys)
            assert torch.equal(found[1], values)
        else:
            chosen = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=5)))
            keys, values, rows = keys[chosen], values[chosen], len(chosen)
            cache.select(chosen)
        assert cache.length == keys.size(2)


def test_buffers_are_doubled_when_they_are_full() -> None:
    cache = KeyValueCache()
    step = torch.randn(2, 1, 1, 3)
    capacities = []
    for _ in range(16):
        keys, _ = cache.append(step, step)
        capacities.append(keys.stride(0) // 3)
    assert capacities == [1, 2, 4, 4, 8, 8, 8, 8, *[16] * 8]


def test_the_dtype_of_the_first_entry_is_kept() -> None:
    cache = KeyValueCache()
    step = torch.zeros(1, 1, 1, 2, dtype=torch.bfloat16)
    assert cache.append(step, step)[0].dtype == torch.bfloat16


def test_selecting_from_an_empty_cache_is_harmless() -> None:
    cache = KeyValueCache()
    cache.select(torch.tensor([0, 0]))
    assert cache.length == 0
    step = torch.zeros(2, 1, 1, 2)
    assert cache.append(step, step)[0].shape == (2, 1, 1, 2)

"""Processing in chunks: no item that was read before an error is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.chunks import chunks, growing, results
from headwise.errors import DataError

SIZES = st.integers(1, 7)


def broken_after(count: int) -> Iterator[int]:
    yield from range(count)
    raise DataError(f"line {count + 1}")


@given(st.integers(0, 40), SIZES)
def test_a_stream_comes_whole_and_in_order(count: int, size: int) -> None:
    found = list(chunks(range(count), itertools.repeat(size)))
    assert [item for chunk in found for item in chunk] == list(range(count))
    assert all(len(chunk) == size for chunk in found[:-1])
    assert all(found)


@given(st.integers(0, 40), SIZES)
def test_what_came_before_a_failure_comes_before_it(count: int, size: int) -> None:
    found: list[int] = []
    with pytest.raises(DataError, match=f"^line {count + 1}$"):
        found.extend(itertools.chain.from_iterable(chunks(broken_after(count), itertools.repeat(size))))
    assert found == list(range(count))


def test_another_error_comes_at_once() -> None:
    def stream() -> Iterator[int]:
        yield 1
        raise KeyError

    with pytest.raises(KeyError):
        list(chunks(stream(), itertools.repeat(2)))


@given(st.integers(0, 20), st.integers(0, 20))
def test_results_up_to_the_item_at_fault(count: int, fault: int) -> None:
    def work(part: Sequence[int]) -> list[int]:
        if fault in part:
            raise DataError(f"item {fault}")
        return [2 * item for item in part]

    found: list[int] = []
    if fault < count:
        with pytest.raises(DataError, match=f"^item {fault}$"):
            found.extend(results(work, range(count)))
    elif count:
        found.extend(results(work, range(count)))
    assert found == [2 * item for item in range(min(count, fault))]


def test_sizes_grow_up_to_the_most() -> None:
    assert list(itertools.islice(growing(64, 300), 5)) == [64, 128, 256, 300, 300]
    assert list(itertools.islice(growing(64, 1), 2)) == [1, 1]

"""Streams in chunks: what is batched is read ahead, and none of it is lost where the rest can't be read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from headwise.errors import HeadwiseError

T = TypeVar("T")
R = TypeVar("R")


def chunks(stream: Iterable[T], sizes: Iterable[int]) -> Iterator[list[T]]:
    """Yield lists of these sizes, the last one shorter.

    Where the stream raises a `HeadwiseError`, what came before it is yielded first, and then the error is raised: a
    bad line 700 stops nothing before line 700.
    """
    rest = iter(stream)
    for size in sizes:
        chunk: list[T] = []
        failure: HeadwiseError | None = None
        try:
            chunk.extend(itertools.islice(rest, size))
        except HeadwiseError as error:
            failure = error
        if chunk:
            yield chunk
        if failure is not None:
            raise failure
        if len(chunk) < size:
            return


def results(work: Callable[[Sequence[T]], Sequence[R]], chunk: Sequence[T]) -> Iterator[R]:
    """Yield what `work` makes of each item of a chunk.

    Where it raises a `HeadwiseError`, the items are done one by one, so that the results up to the item at fault come
    before the error. `work` has to give an item the same result in any chunk.
    """
    try:
        found = work(chunk)
    except HeadwiseError:
        if len(chunk) == 1:
            raise
        for item in chunk:
            yield from work([item])
        return
    yield from found


def growing(first: int, most: int) -> Iterator[int]:
    """Yield sizes that double from `first` up to `most`, so that the first results come soon."""
    size = min(first, most)
    while True:
        yield size
        size = min(most, 2 * size)

"""Process streams in chunks, without losing items that were read before an error."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from headwise.errors import HeadwiseError

T = TypeVar("T")
R = TypeVar("R")


def chunks(stream: Iterable[T], sizes: Iterable[int]) -> Iterator[list[T]]:
    """Yield lists of these sizes; the last one may be shorter.

    If the stream raises a `HeadwiseError`, the items before it are yielded first, then the error is raised: with a bad
    line 700, lines 1 to 699 are still processed.
    """
    items = iter(stream)
    for size in sizes:
        chunk: list[T] = []
        failure: HeadwiseError | None = None
        try:
            chunk.extend(itertools.islice(items, size))
        except HeadwiseError as error:
            failure = error
        if chunk:
            yield chunk
        if failure is not None:
            raise failure
        if len(chunk) < size:
            return


def results(work: Callable[[Sequence[T]], Sequence[R]], chunk: Sequence[T]) -> Iterator[R]:
    """Yield the results of `work` for each item of a chunk.

    If it raises a `HeadwiseError`, the items are processed one by one, so that the results before the faulty item are
    yielded before the error is raised. The result of an item must not depend on the rest of its chunk.
    """
    try:
        outputs = work(chunk)
    except HeadwiseError:
        if len(chunk) == 1:
            raise
        for item in chunk:
            yield from work([item])
        return
    yield from outputs


def growing(first: int, most: int) -> Iterator[int]:
    """Yield chunk sizes that double from `first` up to `most`, for a short time to the first result."""
    size = min(first, most)
    while True:
        yield size
        size = min(most, 2 * size)

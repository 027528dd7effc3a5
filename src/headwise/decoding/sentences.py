"""Encoded sentences: what lies between texts and a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwise.decoding.options import SearchOptions
from headwise.errors import DataError


@dataclass(frozen=True)
class EncodedSentences:
    """Sentences in the form in which a search takes them.

    Attributes:
        texts: the sentences.
        parts: for each sentence the number of its sources: 0 if it is empty, more than 1 if it was split.
        sources: ids of all parts of all sentences, in order, each with the end symbol.
        prefixes: for each source the target ids with which its outputs begin; None without prefixes.
        options: the search options, within the model's length.
    """

    texts: Sequence[str]
    parts: Sequence[int]
    sources: Sequence[Sequence[int]]
    prefixes: Sequence[Sequence[int]] | None
    options: SearchOptions


def with_prefixes(
    lines: Iterable[str], prefixes: Iterable[str] | None, first: int
) -> Iterator[tuple[int, str, str | None]]:
    """Yield (number, line, prefix); raises `DataError` where there are fewer or more prefixes than lines."""
    remaining_prefixes = None if prefixes is None else iter(prefixes)
    line = first - 1
    for line, text in enumerate(lines, start=first):
        prefix = None if remaining_prefixes is None else next(remaining_prefixes, None)
        if remaining_prefixes is not None and prefix is None:
            raise DataError(f"prefixes: expected one for each line, found none for line {line}")
        yield line, text, prefix
    if remaining_prefixes is not None and next(remaining_prefixes, None) is not None:
        raise DataError(f"prefixes: expected one for each of the {line} lines, found more")

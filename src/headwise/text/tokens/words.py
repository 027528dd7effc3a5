"""Word segmentation, and the subwords of each word, for tasks that label or select words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.vocabulary import Vocabulary

_WORD = re.compile(r"\w+|[^\w\s]")


class Word(NamedTuple):
    """A word of a text: its character offsets from `start` up to `end`, and whether white space precedes it."""

    start: int
    end: int
    spaced: bool


def find_words(text: str) -> list[Word]:
    """Split a text into runs of letters and digits, and other characters one by one."""
    words = []
    for match in _WORD.finditer(text):
        start = match.start()
        words.append(Word(start, match.end(), start == 0 or text[start - 1].isspace()))
    return words


def encode_words(vocabulary: Vocabulary, words: Sequence[str]) -> list[list[int]]:
    """Encode each word by itself, including a leading space, if any; every word gets at least one id."""
    return [ids or [UNK] for ids in vocabulary.encode_batch(words)]

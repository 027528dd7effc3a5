"""Words and their pieces: how tasks that point at words look into a vocabulary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.vocabulary import Vocabulary

_WORD = re.compile(r"\w+|[^\w\s]")


class Word(NamedTuple):
    """A word of a text: the characters from `start` up to `end`, and whether white space stands before it."""

    start: int
    end: int
    spaced: bool


def find_words(text: str) -> list[Word]:
    """Cut a text into runs of letters and digits, and single other characters."""
    found = []
    for match in _WORD.finditer(text):
        start = match.start()
        found.append(Word(start, match.end(), start == 0 or text[start - 1].isspace()))
    return found


def encode_words(vocabulary: Vocabulary, words: Sequence[str]) -> list[list[int]]:
    """Encode words by themselves, each with the space before it, if any; every one has at least one id."""
    return [ids or [UNK] for ids in vocabulary.encode_batch(words)]

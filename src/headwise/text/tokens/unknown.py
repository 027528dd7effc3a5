"""Words that a vocabulary has no subwords for: it spells them by single letters or bytes, or not at all.

The model knows little about such a word, and translates it badly more often than others. Words of two letters aren't
counted: many that a model knows well are spelled so, as UK and Mr. A word is what stands between spaces.
`page/static/js/model/unknown.js` has the same rule for the page without a server.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from headwise.text.tokens.pair_vocabulary import Side, VocabularyProcessor
from headwise.text.tokens.splitting import SPACE
from headwise.text.tokens.subwords import BOS, EOS, PAD, SPECIAL, UNK, Subwords

_WORD = re.compile(f"[^ \n{SPACE}]+")  # SentencePiece takes other white space for an ordinary character
_SYMBOLS = (PAD, BOS, EOS)


class UnknownWordFinder:
    """Finder of the words of one side that the subwords spell by single letters, or that have an unknown one."""

    def __init__(self, subwords: Subwords, side: Side) -> None:
        self._processor = subwords.source_processor if side == "source" else subwords.target_processor
        self._pieces = subwords.source_pieces if side == "source" else subwords.target_pieces
        self._kind = functools.cache(self._find_kind)

    def _find_kind(self, number: int) -> str:
        """Return `u` for an id that is unknown or a byte, `s` for a single letter, `w` for more of a word, or `o`.

        Only letters with upper and lower case count: many scripts without don't separate words.
        """
        if number == UNK or self._processor.is_byte(number):
            return "u"
        piece = self._processor.id_to_piece(number).removeprefix(SPACE)
        if all(character.lower() == character.upper() for character in piece):
            return "o"
        return "s" if len(piece) == 1 else "w"

    @functools.cached_property
    def _has_words(self) -> bool:
        """Whether the vocabulary has more than single characters."""
        return any(self._kind(i) == "w" for i in range(len(SPECIAL), self._processor.vocab_size()))

    def __contains__(self, ids: Sequence[int]) -> bool:
        """Return whether the subwords of a word make it an unknown one."""
        kinds = "".join(map(self._kind, ids))
        return "u" in kinds or ("sss" in kinds and "w" not in kinds and self._has_words)

    def of(self, text: str) -> tuple[str, ...]:
        """Return the unknown words of a text, in its order."""
        ids = self._encode(text)
        kinds = "".join(map(self._kind, ids))
        if "u" not in kinds and "sss" not in kinds:
            return ()
        words, groups = split_words(text), by_word(ids, self._pieces(ids))
        if len(groups) != len(words):  # the text has the symbol for a space, or other white space
            groups = [self._encode(word) for word in words]
        return tuple(word for word, group in zip(words, groups, strict=True) if group in self)

    def _encode(self, text: str) -> Sequence[int]:
        ids = self._processor.encode(text)
        processor = self._processor
        return processor.without_language(ids) if isinstance(processor, VocabularyProcessor) else ids


def by_word(ids: Sequence[int], pieces: Sequence[str]) -> list[list[int]]:
    """Group ids by words, which begin with the symbol for a space; special symbols are words of their own."""
    groups: list[list[int]] = []
    for index, (number, piece) in enumerate(zip(ids, pieces, strict=True)):
        if index == 0 or piece.startswith(SPACE) or number in _SYMBOLS or ids[index - 1] in _SYMBOLS:
            groups.append([])
        groups[-1].append(number)
    return groups


def split_words(text: str) -> list[str]:
    """Split a text into words where SentencePiece does before segmentation."""
    return _WORD.findall(text)

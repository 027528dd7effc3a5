"""Encoded sentences: what lies between texts and a search."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from headwise.characters import as_seen, check_characters
from headwise.documents.pieces import has_words
from headwise.documents.segments import sentences_of
from headwise.engine.base import SearchSentence
from headwise.engine.outputs import Translation
from headwise.engine.readings.reading import Reading
from headwise.engine.splitting import split_text
from headwise.engine.terms import TERM_BEAM, Terms, sentence_terms
from headwise.errors import ConfigError, DataError
from headwise.text.reading.glossary import Glossary, Match
from headwise.text.reading.lines import one_line
from headwise.text.tokens.subwords import EOS, Subwords

Text = TypeVar("Text")
Split = bool | Literal["long"]  # whether a line is split into its sentences, or in parts where it is too long


class LongLineWarning(UserWarning):
    """A line has more subwords than the model reads, and only its beginning is translated."""

    def __init__(self, line: int, length: int, most: int) -> None:
        super().__init__(line, length, most)
        self.line, self.length, self.most = line, length, most

    def __str__(self) -> str:
        return f"line {self.line}: {self.length} subwords, the model reads the first {self.most} of them"


@dataclass(frozen=True)
class EncodedSentences:
    """Sentences in the form in which a search takes them.

    Attributes:
        texts: the sentences.
        read: what the model reads of each; empty for those that are kept.
        parts: for each sentence the number of its parts: 0 if it is empty, more than 1 if it was split.
        searched: all parts of all sentences, in order.
        alpha: exponent of the length penalty.
        matches: for each sentence its glossary entries; empty without a glossary.
        readings: what is read of lines in place of what is written, by their numbers, and then in place of that.
        kept: the numbers of those that aren't searched: they are in the target language, or have no letter or digit; in
            guarded runs no word, and their numbers get the marks of the target language.
        prefixes: for each sentence the text with which its translation begins; None without any.
    """

    texts: Sequence[str]
    read: Sequence[str]
    parts: Sequence[int]
    searched: Sequence[SearchSentence]
    alpha: float
    matches: Sequence[Sequence[Match]] = ()
    readings: Sequence[Mapping[int, Reading]] = ()
    kept: Collection[int] = ()
    prefixes: Sequence[str] | None = None

    def with_glossary(
        self,
        glossary: Glossary,
        texts: Sequence[str],
        parts: Sequence[Sequence[str]],
        subwords: Subwords,
        rooms: Sequence[int],
    ) -> EncodedSentences:
        """Return the sentences with a glossary's terms; with terms, the beam of a sentence is at least `TERM_BEAM`.

        `texts` are those in which each sentence's terms are looked up; the terms of a split sentence are looked up in
        its `parts`. `rooms` bound the tokens of each part's terms.
        """
        matches = [glossary.find(one_line(text)) for text in texts]
        by_part = [
            each
            for pieces, found in zip(parts, matches, strict=True)
            for each in ([found] if len(pieces) == 1 else map(glossary.find, pieces))
        ]
        searched = [
            _with_terms(sentence, sentence_terms(found, subwords, room))
            for sentence, found, room in zip(self.searched, by_part, rooms, strict=True)
        ]
        return dataclasses.replace(self, searched=searched, matches=matches)

    def written(self, sentence: int) -> str:
        """Return what is read of a sentence, given by its number, in the characters in which it is written."""
        text = self.read[sentence]
        spelled = self.readings[-1].get(sentence) if self.readings else None
        return text if spelled is None else spelled.restore(text)

    def finished(self, sentence: int, translation: Translation, subwords: Subwords) -> Translation:
        """Return the translation of a sentence, given by its number, in its case and letters and with warnings.

        These are about its glossary, and about its prefix. `subwords` are the model's.
        """
        if sentence in self.kept:
            same = Translation.kept(translation.source, aligned=translation.outputs[0].alignment is not None)
            numbers = None if has_words(same.source) or not self.readings else self.readings[0].get(sentence)
            return same if numbers is None else numbers.restored(same)
        checked = translation.checked(self.matches[sentence] if self.matches else (), subwords)
        prefix = "" if self.prefixes is None or not self.parts[sentence] else self.prefixes[sentence]
        if lacking := subwords.unwritable(one_line(prefix)):
            about = f"prefix: the model's vocabulary can't write {' '.join(lacking)}"
            checked = checked.with_warnings((about,))
        if self.readings and (spelled := self.readings[-1].get(sentence)) is not None:
            checked = dataclasses.replace(checked, warnings=tuple(map(spelled.restore, checked.warnings)))
        restored = checked
        for readings in reversed(self.readings):
            restored = readings[sentence].restored(restored) if sentence in readings else restored
        return restored.aligned_as(checked, self.read[sentence])


def _with_terms(sentence: SearchSentence, terms: Terms | None) -> SearchSentence:
    if terms is None:
        return sentence
    options = dataclasses.replace(sentence.options, beam=max(sentence.options.beam, TERM_BEAM))
    return dataclasses.replace(sentence, options=options, terms=terms)


def listed(texts: Iterable[Text], what: str, first: int = 1, *, ids: bool = False) -> list[Text]:
    """Return texts as a list, as an open file can be read once.

    Raises `ConfigError` for a string, which is a list of letters, and for what isn't text, or with `ids` a sequence:
    `what` takes the texts, and `first` is the number of the first.
    """
    if isinstance(texts, str):
        raise ConfigError(f"{what}: expected a list of sentences, found one string")
    found = list(texts)
    for line, text in enumerate(found, start=first):
        if not isinstance(text, str) and not (ids and isinstance(text, Sequence)):
            raise ConfigError(f"{what}: line {line}: expected text{' or ids' * ids}, found {text!r}")
    return found


def readable(subwords: Subwords, text: str, place: str) -> str:
    """Return a text in one line, and `as_seen` unless the vocabulary needs more subwords for that.

    Raises `DataError`, which names the place, for half of a character.
    """
    text = one_line(check_characters(text, place)).strip()
    seen = as_seen(text)
    if seen == text or len(subwords.encode_source(seen)) > len(subwords.encode_source(text)):
        return text
    return seen


def encode_source(
    subwords: Subwords, text: str, most: int, line: int, split: Split = False, language: str | None = None
) -> tuple[list[str], list[list[int]]]:
    """Return the parts of a `readable` line and their ids: none if it is empty, several if it is split.

    `most` is the largest number of subwords of a source without its end symbol. A longer line is split, or its
    beginning is kept, with a `LongLineWarning` that has the number of its `line`. Where `split` is True, its sentences
    are parts by the rules of its `language`.
    """
    parts: list[tuple[str, list[int]]] = []
    for sentence in sentences_of(text, language) if split is True else [text]:
        ids = subwords.encode_source(sentence)
        found = [(sentence, ids)]
        if len(ids) > most and split:
            pieces = split_text(sentence, lambda piece: len(subwords.encode_source(piece)) <= most)
            found = [(piece, subwords.encode_source(piece)) for piece in pieces]
        elif len(ids) > most:
            warnings.warn(LongLineWarning(line, len(ids), most), stacklevel=5)
        parts += [(piece, ids[:most]) for piece, ids in found if subwords.without_language(ids)]
    return [part for part, _ in parts], [[*ids, EOS] for _, ids in parts]


def with_prefixes(
    lines: Iterable[Text], prefixes: Iterable[str] | None, first: int
) -> Iterator[tuple[int, Text, str | None]]:
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

"""Translations of sentences with tags and protected pieces.

A sentence is translated with its pieces. Where the translation lacks one, the sentence is translated again without it,
and the piece is put where the alignment says. So no piece is ever lost, and sentences whose pieces arrive, or that have
none, have the translation that `headwise translate` gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from headwise.documents.placement import Found, placed, source_words, target_words
from headwise.documents.protected import locate
from headwise.documents.sentence import ProtectedPiece, Sentence, words
from headwise.engine.outputs import Translation
from headwise.engine.word_weights import SentencePair, Weights, word_weights
from headwise.serve.translation.searching import Searched

_MOST_WEIGHTS = 1_000_000  # words of a sentence times words of its translation


# Translates sentences, whose numbers in the request are given; adds what each of the models found to the list.
Translate = Callable[[list[str], Sequence[int], list[Searched]], Awaitable[list[Translation]]]


@dataclass(frozen=True)
class Rendered:
    """The translation of a sentence.

    Attributes:
        texts: the translations with tags and pieces, best first; those that lack a piece are left out.
        translation: what the model said.
        repaired: the pieces that were put in by alignment, because the translation lacked them.
        kept: the number of pieces that the translation had.
    """

    texts: list[str]
    translation: Translation
    repaired: list[ProtectedPiece] = field(default_factory=list)
    kept: int = 0


@dataclass
class _Work:
    """A sentence on its way: as it is searched now, and what was found."""

    sentence: Sentence
    repaired: list[ProtectedPiece] = field(default_factory=list)
    translation: Translation | None = None
    chain: list[Searched] = field(default_factory=list)  # the models' searches
    row: int = 0  # its number in them

    def take(self, numbers: Sequence[int]) -> None:
        """Take pieces out of the sentence."""
        pieces = self.sentence.pieces
        self.repaired += [pieces[number] for number in numbers if not pieces[number].hidden]
        self.sentence = self.sentence.without(numbers)


def lost(piece: ProtectedPiece) -> str:
    """Return the warning for a piece that was put in by alignment."""
    return f"the translation lacked {piece.text!r}; it was put where the alignment says"


async def render(sentences: Sequence[Sentence], search: Translate) -> list[Rendered]:
    """Translate sentences; raises as `search`."""
    works = [_Work(sentence) for sentence in sentences]
    for work in works:
        work.take([number for number, piece in enumerate(work.sentence.pieces) if piece.hidden])
    waiting = list(range(len(works)))
    for attempt in range(3):
        chain: list[Searched] = []
        found = await search([works[number].sentence.text for number in waiting], waiting, chain)
        for row, (number, translation) in enumerate(zip(waiting, found, strict=True)):
            works[number].translation, works[number].chain, works[number].row = translation, chain, row
        waiting = [number for number in waiting if _missing(works[number])]
        if not waiting:
            break
        for number in waiting:
            pieces = range(len(works[number].sentence.pieces))
            works[number].take(_missing(works[number]) if attempt == 0 else list(pieces))
    return await _rendered(works)


def _missing(work: _Work) -> list[int]:
    assert work.translation is not None
    return locate(work.sentence, work.translation.text)[1] if work.sentence.pieces else []


async def _rendered(works: Sequence[_Work]) -> list[Rendered]:
    """Place the marks of all sentences."""
    asked: list[tuple[_Work, int, list[Found]]] = []
    for work in works:
        assert work.translation is not None
        for rank, output in enumerate(work.translation.outputs):
            found, missing = locate(work.sentence, output.text) if work.sentence.pieces else ([], [])
            if not missing:
                asked.append((work, rank, found))
    weights = await _weights(asked)
    texts: dict[int, list[str]] = {}
    for (work, rank, found), one in zip(asked, weights, strict=True):
        assert work.translation is not None
        text = placed(work.sentence, work.translation.outputs[rank].text, found, one)
        texts.setdefault(id(work), []).append(text)
    return [
        Rendered(texts[id(work)], work.translation, work.repaired, len(work.sentence.pieces))
        for work in works
        if work.translation is not None
    ]


async def _weights(asked: Sequence[tuple[_Work, int, list[Found]]]) -> list[Weights | None]:
    """Return the weights of the alignments of those with marks, over all models that they went through."""
    results: list[Weights | None] = [None] * len(asked)
    chains: dict[int, list[int]] = {}
    for number, (work, _, _) in enumerate(asked):
        if work.sentence.has_marks:
            chains.setdefault(id(work.chain), []).append(number)
    for numbers in chains.values():
        chain = asked[numbers[0]][0].chain
        for stage, searched in enumerate(chain):
            last = stage == len(chain) - 1
            pairs = {number: _pair(*asked[number], stage, last) for number in numbers}
            small = [
                number
                for number, pair in pairs.items()
                if len(pair.source_words) * len(pair.target_words) <= _MOST_WEIGHTS
            ]
            async with searched.model.reading:
                found = await run_in_threadpool(_align, searched, [pairs[number] for number in small])
            for number in set(numbers) - set(small):
                results[number] = None  # too many words: placed in proportion
            numbers = small
            for number, weights in zip(small, found, strict=True):
                before = results[number]
                results[number] = weights if before is None else weights @ before
    return results


def _align(searched: Searched, pairs: list[SentencePair]) -> list[Weights]:
    return word_weights(searched.model.reader, searched.encoded, searched.hypotheses, pairs)


def _pair(work: _Work, rank: int, found: list[Found], stage: int, last: bool) -> SentencePair:
    """Return the texts and words between which a model's attention is asked for; pivots are best translations."""
    translation = work.chain[stage].translations[work.row]
    source, first = work.sentence.text, source_words(work.sentence)
    if stage:
        source = work.chain[stage - 1].translations[work.row].text
        first = words(source)
    target = translation.outputs[rank if last else 0].text
    second = target_words(target, found) if last else words(target)
    return SentencePair(work.row, rank if last else 0, source, target, first, second)

"""Translations of sentences with tags and protected pieces.

A sentence is translated with its pieces. Where the translation lacks one, the sentence is translated again without it,
and the piece is put where the alignment says. So no piece is ever lost, and sentences whose pieces arrive, or that have
none, have the translation that `headwise translate` gives.

Of a strict sentence, a translation whose placeholders aren't those of the source is refused: the next best is taken, or
the source stands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headwise.documents.placement import MOST_WEIGHTS, placed, source_words, target_words
from headwise.documents.protected import intact, locate
from headwise.documents.sentence import Found, ProtectedPiece, Sentence, SentencePair, Weights, words


class _Text(Protocol):
    @property
    def text(self) -> str: ...


class SentenceOutputs(_Text, Protocol):
    """What a model made of a sentence: its outputs, best first, and the text of the best."""

    @property
    def outputs(self) -> Sequence[_Text]:
        """The outputs."""
        ...


T = TypeVar("T", bound=SentenceOutputs)
T_co = TypeVar("T_co", bound=SentenceOutputs, covariant=True)


class ModelOutputs(Protocol[T_co]):
    """What a model made of some sentences."""

    @property
    def translations(self) -> Sequence[T_co]:
        """The sentences' translations."""
        ...

    async def word_weights(self, pairs: Sequence[SentencePair]) -> list[Weights]:
        """Return the weights of alignments between sentences and their translations."""
        ...


# Translates sentences, whose numbers among all are given, by each of several models in turn.
Translate = Callable[[list[str], Sequence[int]], Awaitable[Sequence[ModelOutputs[T]]]]


_REFUSED = "no translation had the placeholders of the source; the source stands in its place"


@dataclass(frozen=True)
class Rendered(Generic[T]):
    """The translation of a sentence.

    Attributes:
        texts: the translations with tags and pieces, best first; those that lack a piece are left out.
        translation: what the model said.
        repaired: the pieces that were put in by alignment, because the translation lacked them.
        kept: the number of pieces that the translation had.
        ranks: the outputs that the texts are of; none if no output had the placeholders, and the text is the source.
    """

    texts: list[str]
    translation: T
    repaired: list[ProtectedPiece] = field(default_factory=list)
    kept: int = 0
    ranks: Sequence[int] = (0,)

    @property
    def warnings(self) -> list[str]:
        """What became of its pieces, where it wasn't as it should be."""
        lacked = [
            f"the translation lacked {piece.text!r}; it was put where the alignment says" for piece in self.repaired
        ]
        return lacked if self.ranks else [*lacked, _REFUSED]


@dataclass
class _Work(Generic[T]):
    """A sentence on its way: as it is searched now, and what was found."""

    original: Sentence
    sentence: Sentence
    repaired: list[ProtectedPiece] = field(default_factory=list)
    chain: Sequence[ModelOutputs[T]] = ()  # of the models in turn
    row: int = 0  # its number in them
    texts: list[tuple[str, int]] = field(default_factory=list)  # with tags and pieces, and their outputs' ranks

    @property
    def translation(self) -> T:
        """What the last model said."""
        return self.chain[-1].translations[self.row]

    def located(self, translation: str) -> tuple[list[Found], list[int]]:
        """Return where the pieces are in a translation, and the numbers of those that aren't."""
        return locate(self.sentence, translation) if self.sentence.pieces else ([], [])

    def take(self, numbers: Sequence[int]) -> None:
        """Take pieces out of the sentence."""
        pieces = self.sentence.pieces
        self.repaired += [pieces[number] for number in numbers if not pieces[number].hidden]
        self.sentence = self.sentence.without(numbers)


async def render(sentences: Sequence[Sentence], search: Translate[T]) -> list[Rendered[T]]:
    """Translate sentences; raises as `search`."""
    works: list[_Work[T]] = [_Work(sentence, sentence) for sentence in sentences]
    for work in works:
        work.take([number for number, piece in enumerate(work.sentence.pieces) if piece.hidden])
    waiting = list(range(len(works)))
    for attempt in range(3):
        chain = await search([works[number].sentence.text for number in waiting], waiting)
        for row, number in enumerate(waiting):
            works[number].chain, works[number].row = chain, row
        missing = {number: works[number].located(works[number].translation.text)[1] for number in waiting}
        waiting = [number for number in waiting if missing[number]]
        if not waiting:
            break
        for number in waiting:
            pieces = range(len(works[number].sentence.pieces))
            works[number].take(missing[number] if attempt == 0 else pieces)
    return await _rendered(works)


async def _rendered(works: Sequence[_Work[T]]) -> list[Rendered[T]]:
    """Place the marks of all sentences."""
    asked: list[tuple[_Work[T], int, list[Found]]] = []
    for work in works:
        for rank, output in enumerate(work.translation.outputs):
            found, missing = work.located(output.text)
            if not missing:
                asked.append((work, rank, found))
    weights = await _weights(asked)
    for (work, rank, found), one in zip(asked, weights, strict=True):
        text = placed(work.sentence, work.translation.outputs[rank].text, found, one)
        if not work.original.strict or intact(work.original, text):
            work.texts.append((text, rank))
    return [
        Rendered(
            [text for text, _ in work.texts] or [work.original.source],
            work.translation,
            work.repaired,
            len(work.sentence.pieces),
            [rank for _, rank in work.texts],
        )
        for work in works
    ]


async def _weights(asked: Sequence[tuple[_Work[T], int, list[Found]]]) -> list[Weights | None]:
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
            sizes = {n: len(pair.source_words) * len(pair.target_words) for n, pair in pairs.items()}
            small = [number for number, size in sizes.items() if size <= MOST_WEIGHTS]
            found = await searched.word_weights([pairs[number] for number in small])
            for number in set(numbers) - set(small):
                results[number] = None  # too many words: placed in proportion
            numbers = small
            for number, weights in zip(small, found, strict=True):
                before = results[number]
                results[number] = weights if before is None else weights @ before
    return results


def _pair(work: _Work[T], rank: int, found: list[Found], stage: int, last: bool) -> SentencePair:
    """Return the texts and words between which a model's attention is asked for; pivots are best translations."""
    translation = work.chain[stage].translations[work.row]
    source, first = work.sentence.text, source_words(work.sentence)
    if stage:
        source = work.chain[stage - 1].translations[work.row].text
        first = words(source)
    target = translation.outputs[rank if last else 0].text
    second = target_words(target, found) if last else words(target)
    return SentencePair(work.row, rank if last else 0, source, target, first, second)

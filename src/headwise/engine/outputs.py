"""Translations: text, subwords, scores and alignment."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headwise.characters import join_texts
from headwise.documents.pieces import has_words
from headwise.engine.alignment import carried_over, word_numbers
from headwise.engine.drawn import drawn
from headwise.engine.hypotheses import length_penalty
from headwise.engine.quality import mean_probability
from headwise.text.reading.glossary import Match
from headwise.text.reading.lines import one_line
from headwise.text.tokens.subwords import Subwords

T = TypeVar("T")
_KEPT = "it is in the target language already, and stays as it is"


@dataclass(frozen=True)
class Output:
    """One output for a source sentence.

    Attributes:
        text: detokenized text.
        tokens: subword ids, without the end symbol.
        pieces: subwords as strings, the end symbol last.
        log_probability: log P(text | source), natural logarithm, the end symbol included.
        score: log_probability / length penalty.
        token_log_probabilities: one for each of `pieces`; they sum to `log_probability`.
        alignment: links (source word, target word), from 0; None unless requested.
        quality: expected chrF2, from 0 to 100 (see `headwise.engine.quality`); None where the run has measured none.
        review: whether it should be looked at, because it is as improbable as the worst fifth of the development set.
    """

    text: str
    tokens: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    log_probability: float = 0.0
    score: float = 0.0
    token_log_probabilities: tuple[float, ...] = ()
    alignment: tuple[tuple[int, int], ...] | None = None
    quality: float | None = None
    review: bool | None = None

    @property
    def probability(self) -> float:
        """The geometric mean of the tokens' probabilities, the end symbol's included."""
        return mean_probability(self.log_probability, len(self.token_log_probabilities))

    @property
    def pharaoh(self) -> str:
        """The alignment in the Pharaoh format, `0-0 2-1`; empty without an alignment."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment or ())


@dataclass(frozen=True)
class Translation:
    """The translation of a source sentence: `outputs`, best first (samples in the order drawn).

    `source_pieces` are the subwords that the model read, without end symbols. `unknown` are the words of the source,
    as written, that the vocabulary has no subwords for (see `headwise.text.tokens.unknown`) and the best output lacks.
    `warnings` are sentences about the best output, such as a glossary's term that it lacks.
    """

    source: str
    source_pieces: tuple[str, ...]
    outputs: tuple[Output, ...]
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The best output, detokenized."""
        return self.outputs[0].text

    @property
    def score(self) -> float:
        """The best output's log-probability over its length penalty."""
        return self.outputs[0].score

    @property
    def log_probability(self) -> float:
        """The best output's log-probability."""
        return self.outputs[0].log_probability

    @classmethod
    def kept(cls, text: str, *, aligned: bool = False) -> Translation:
        """Return the translation of a text that stays as it is: in the target language, or without a word."""
        about = (_KEPT,) if has_words(text) else ()
        return cls(text, (), (Output(one_line(text), alignment=() if aligned else None),), (), about)

    def _repr_html_(self) -> str:
        best = self.outputs[0]
        return drawn(self.source, best.text, best.alignment)

    def aligned_as(self, other: Translation, read: str) -> Translation:
        """Return the translation with the alignments of another one, whose texts say the same; its source is `read`."""
        if self.outputs[0].alignment is None:
            return self
        outputs = tuple(
            replace(
                output, alignment=carried_over(before.alignment or (), (read, self.source), (before.text, output.text))
            )
            for output, before in zip(self.outputs, other.outputs, strict=True)
        )
        return replace(self, outputs=outputs)

    def with_warnings(self, sentences: tuple[str, ...]) -> Translation:
        """Return the translation with further sentences about it."""
        return replace(self, warnings=self.warnings + sentences) if sentences else self

    def checked(self, matches: Sequence[Match], subwords: Subwords) -> Translation:
        """Return the translation with a warning for each of its glossary entries that the best output lacks."""
        missing = [match for match in matches if match.missing(self.text, lowercase=subwords.lowercases)]
        return self.with_warnings(tuple(_about_missing(match, subwords) for match in missing))


def _about_missing(match: Match, subwords: Subwords) -> str:
    """Return the warning for a glossary entry that an output lacks, with the characters that can't be written."""
    targets = " or ".join(match.entry.targets)
    lacking = subwords.unwritable(targets)
    cause = f": the model's vocabulary can't write {' '.join(lacking)}" if lacking else ""
    return f"glossary: expected {targets} for {match.entry.source}, found it missing{cause}"


def join_translations(parts: Sequence[Translation], source: str, alpha: float, *, aligned: bool = False) -> Translation:
    """Join the translated parts of a split sentence, rank by rank; a part with fewer outputs repeats its last.

    Without parts the translation is empty, with log-probability 0.
    """
    if not parts:
        return Translation(source, (), (Output("", alignment=() if aligned else None),))
    ranks = range(max(len(part.outputs) for part in parts))
    outputs = [
        _join_outputs([part.outputs[min(rank, len(part.outputs) - 1)] for part in parts], parts, alpha)
        for rank in ranks
    ]
    pieces = _chained(part.source_pieces for part in parts)
    return Translation(source, pieces, tuple(outputs), (), _chained(part.warnings for part in parts))


def _join_outputs(outputs: Sequence[Output], parts: Sequence[Translation], alpha: float) -> Output:
    if len(outputs) == 1:
        return outputs[0]
    token_log_probs = _chained(output.token_log_probabilities for output in outputs)
    log_probability = sum(output.log_probability for output in outputs)
    return Output(
        text=join_texts([output.text for output in outputs]),
        tokens=_chained(output.tokens for output in outputs),
        pieces=_chained(output.pieces for output in outputs),
        log_probability=log_probability,
        score=log_probability / length_penalty(len(token_log_probs), alpha),
        token_log_probabilities=token_log_probs,
        alignment=_join_alignments(outputs, parts),
        quality=_mean_quality(outputs),
        review=None if outputs[0].review is None else any(output.review for output in outputs),
    )


def _chained(parts: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def _mean_quality(outputs: Sequence[Output]) -> float | None:
    """Return the mean of the parts' expected chrF2, weighted by their tokens."""
    weighted = [
        (output.quality, len(output.token_log_probabilities)) for output in outputs if output.quality is not None
    ]
    total = sum(weight for _, weight in weighted)
    return sum(quality * weight for quality, weight in weighted) / total if total else None


def _join_alignments(outputs: Sequence[Output], parts: Sequence[Translation]) -> tuple[tuple[int, int], ...] | None:
    """Concatenate the alignments of the parts; word indices of a part are offset by the words of the parts before."""
    links: list[tuple[int, int]] = []
    source_words = target_words = 0
    for output, part in zip(outputs, parts, strict=True):
        if output.alignment is None:
            return None
        links += [(source + source_words, target + target_words) for source, target in output.alignment]
        source_words += word_numbers(part.source_pieces)[-1] + 1
        target_words += word_numbers(output.pieces[:-1])[-1] + 1 if output.text.strip() else 0
    return tuple(links)

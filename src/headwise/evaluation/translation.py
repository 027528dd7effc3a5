"""Corpus-level translation metrics with sacreBLEU signatures, and perplexity.

`bleu` is sacreBLEU (Post 2018) on detokenized, cased text, which is comparable between systems with different
subwords. `chrf` is chrF2 (Popović 2015) on the same text. `tokenized_bleu` doesn't tokenize the text (`tok:none`): on
tokenized corpora it is the BLEU that papers report; elsewhere it isn't comparable with any published score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headwise.errors import DataError
from headwise.evaluation.metrics import METRICS, Bleu, MetricScore, check_lines, find_metric


@dataclass(frozen=True)
class Perplexity:
    """Exponential of the mean negative log-probability, per subword and per word of the reference."""

    subword: float
    word: float

    def to_json(self) -> dict[str, float | None]:
        """Return `{"subword", "word"}`; JSON has no infinity, so an infinite perplexity becomes null."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


@dataclass(frozen=True)
class TranslationScores:
    """All scores that `headwise evaluate` reports for one test set.

    `metrics` are by name: all of `METRICS` and `tokenized_bleu`. `notes` are hints for the user (for instance that the
    text looks tokenized); they are not part of the JSON.
    """

    metrics: dict[str, MetricScore]
    exact: float  # percentage of lines equal to the reference, surrounding spaces aside
    perplexity: Perplexity | None = None
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return all scores, a line each, with their signatures."""
        lines = [f"{s.title:<15} {s.score:6.2f}  {s.signature}" for s in self.metrics.values()]
        lines.append(f"{'exact':<15} {self.exact:6.2f}  % of lines are the reference")
        if self.perplexity is not None:
            lines.append(
                f"{'perplexity':<15} {self.perplexity.subword:6.2f}  per subword, {self.perplexity.word:.2f} per word"
            )
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the scores as one object, with `perplexity` only if it was computed."""
        result: dict[str, Any] = {name: score.to_json() for name, score in self.metrics.items()}
        result["exact"] = self.exact
        if self.perplexity is not None:
            result["perplexity"] = self.perplexity.to_json()
        return result


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    perplexity: Perplexity | None = None,
) -> TranslationScores:
    """Score a test set with one reference per line.

    `tokenize` is sacreBLEU's tokenizer for `bleu` (`13a` suits languages written with spaces, `zh` Chinese,
    `ja-mecab` Japanese, `ko-mecab` Korean, `char` any language without spaces). `lowercase` applies to
    `tokenized_bleu` only, for comparison with papers that lower-case; `bleu` stays cased.

    Raises `DataError` where the number of lines differs or there are none, `ConfigError` for a tokenizer
    that is unknown or not installed.
    """
    metrics = [find_metric(name, tokenize) for name in METRICS]
    metrics.append(Bleu("none", lowercase=lowercase, name="tokenized_bleu", title="tokenized BLEU"))
    return TranslationScores(
        metrics={metric.name: metric.score(hypotheses, references) for metric in metrics},
        exact=exact_match(hypotheses, references),
        perplexity=perplexity,
        notes=tuple(_tokenization_notes(hypotheses, references)),
    )


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a") -> MetricScore:
    """Corpus BLEU as sacreBLEU computes it; raises as `score_translations` does."""
    return find_metric("bleu", tokenize).score(hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the percentage of lines equal to their reference, spaces around lines aside; raises as `check_lines`."""
    check_lines(hypotheses, references)
    same = sum(h.strip() == r.strip() for h, r in zip(hypotheses, references, strict=True))
    return 100.0 * same / len(references)


def perplexity(total_log_probability: float, subwords: int, words: int) -> Perplexity:
    """Return the perplexities of a corpus log-probability (natural logarithm, summed over all target tokens).

    `subwords` counts the scored tokens, the end of each sentence included. `words` comes from `count_words`.
    Perplexity per subword is comparable only between runs with the same subword model, perplexity per word between
    any runs. Raises `DataError` where a count isn't positive.
    """
    assert total_log_probability <= 0.0, total_log_probability
    if subwords <= 0 or words <= 0:
        raise DataError(f"perplexity: expected at least one scored subword and word, found {subwords} and {words}")
    return Perplexity(_exp(-total_log_probability / subwords), _exp(-total_log_probability / words))


def count_words(references: Iterable[str]) -> int:
    """Return the number of whitespace-separated words, plus one end of sentence per line, for word perplexity."""
    return sum(len(line.split()) + 1 for line in references)


def _tokenization_notes(hypotheses: Sequence[str], references: Sequence[str]) -> Iterable[str]:
    """Yield a note where most lines end in a separate period, which indicates tokenized text."""
    hypothesis_lines, reference_lines = _tokenized_lines(hypotheses), _tokenized_lines(references)
    half = len(references) / 2
    if reference_lines > half:
        yield (
            f"the references look tokenized ({reference_lines:,} of {len(references):,} lines end in ' .'): "
            "compare tokenized_bleu with papers; bleu is meant for detokenized text"
        )
    elif hypothesis_lines > half:
        yield (
            f"the translations look tokenized ({hypothesis_lines:,} of {len(hypotheses):,} lines end in ' .') "
            "and the references don't: every score is too low until they are detokenized"
        )


def _tokenized_lines(lines: Sequence[str]) -> int:
    return sum(line.rstrip().endswith((" .", " 。")) for line in lines)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf

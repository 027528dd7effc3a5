"""Corpus metrics of translations, by name: scores and signatures are sacreBLEU's (Post 2018).

A score is a function of statistics that are summed over the sentences, so significance tests compute it for many
resampled corpora without reading the text again. A new metric is a class and a line in `METRICS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from headwise.errors import ConfigError, DataError
from headwise.extras import OPTIONAL

TOKENIZERS = ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "none")
_NEEDS = {
    "ja-mecab": f"`pip install '{OPTIONAL['MeCab']}'`",
    "ko-mecab": f"`pip install '{OPTIONAL['mecab_ko']}'`",
    "flores101": "a network connection the first time, for its SentencePiece model",
    "flores200": "a network connection the first time, for its SentencePiece model",
}


@dataclass(frozen=True)
class MetricScore:
    """Score of one metric, from 0 to 100, with its title in tables and its sacreBLEU signature."""

    title: str
    score: float
    signature: str

    def to_json(self) -> dict[str, Any]:
        """Return `{"score", "signature"}`."""
        return {"score": self.score, "signature": self.signature}


class Metric(ABC):
    """A corpus metric with one reference for each sentence.

    Attributes:
        name: as JSON and options name it.
        title: as tables do.
    """

    def __init__(self, name: str, title: str, scorer: BLEU | CHRF) -> None:
        """`scorer` is sacreBLEU's implementation."""
        self.name, self.title, self._scorer = name, title, scorer

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> MetricScore:
        """Score a corpus; raises `DataError` as `check_lines` does."""
        check_lines(hypotheses, references)
        score = self._scorer.corpus_score(list(hypotheses), [list(references)]).score
        return MetricScore(self.title, score, self.signature())

    def signature(self, **more: object) -> str:
        """Return sacreBLEU's signature, with `more` fields, such as the seed of a significance test."""
        self._scorer.corpus_score(["a"], [["a"]])  # which tells sacreBLEU the number of references
        signature = self._scorer.get_signature()
        for key, value in more.items():
            signature.update(key, value)
        return str(signature)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
        """Return the statistics (sentence, statistic), which are whole numbers."""
        rows = [self._of_sentence(h, r) for h, r in zip(hypotheses, references, strict=True)]
        return np.array(rows, dtype=np.float64)

    @abstractmethod
    def _of_sentence(self, hypothesis: str, reference: str) -> list[int]:
        """Return the statistics of one sentence."""

    @abstractmethod
    def combined(self, sums: Sequence[int]) -> float:
        """Return the score of a corpus whose statistics have these sums."""


class Bleu(Metric):
    """BLEU (Papineni et al. 2002); statistics: both lengths, and for each n the matching and all n-grams of words."""

    _scorer: BLEU

    def __init__(self, tokenize: str, *, lowercase: bool = False, name: str = "bleu", title: str = "BLEU") -> None:
        """Raises `ConfigError` for a tokenizer that is unknown or not installed.

        sacreBLEU's warning about tokenized text is disabled (`force`), because `notes` of `score_translations` says
        the same once and names the score to use instead.
        """
        if tokenize not in TOKENIZERS:
            raise ConfigError(f"--tokenize: expected one of {', '.join(TOKENIZERS)}, found {tokenize!r}")
        try:
            super().__init__(name, title, BLEU(tokenize=tokenize, lowercase=lowercase, force=True))
        except (ImportError, RuntimeError, OSError) as error:
            if tokenize not in _NEEDS:
                raise
            raise ConfigError(
                f"--tokenize {tokenize}: this tokenizer can't be used here and needs {_NEEDS[tokenize]}"
            ) from error

    def _of_sentence(self, hypothesis: str, reference: str) -> list[int]:
        found = self._scorer.corpus_score([hypothesis], [[reference]])
        return [found.sys_len, found.ref_len, *found.counts, *found.totals]

    def combined(self, sums: Sequence[int]) -> float:  # noqa: D102
        (translation, reference), counts = sums[:2], list(sums[2:])
        matching, all_ngrams = counts[: len(counts) // 2], counts[len(counts) // 2 :]
        method = self._scorer.smooth_method
        return BLEU.compute_bleu(matching, all_ngrams, translation, reference, smooth_method=method).score


class Chrf(Metric):
    """chrF2 (Popović 2015): F score of character n-grams up to 6, whose recall is weighted twice.

    Statistics: for each n the n-grams of the translation, those of the reference, and the matching ones. sacreBLEU has
    no public way to them; the formula is its own, so that scores are equal to the bit.
    """

    def __init__(self) -> None:
        super().__init__("chrf", "chrF2", CHRF())

    def _of_sentence(self, hypothesis: str, reference: str) -> list[int]:
        statistics: list[int] = []
        for n in range(1, CHRF.CHAR_ORDER + 1):
            ours, theirs = _ngrams(hypothesis, n), _ngrams(reference, n)
            statistics += [ours.total() if theirs else 0, theirs.total(), (ours & theirs).total()]
        return statistics

    def combined(self, sums: Sequence[int]) -> float:  # noqa: D102
        precision, recall, orders = 0.0, 0.0, 0
        for ours, theirs, matching in zip(sums[::3], sums[1::3], sums[2::3], strict=True):
            if ours and theirs:
                precision, recall, orders = (
                    precision + matching / ours,
                    recall + matching / theirs,
                    orders + 1,
                )
        if not precision + recall:
            return 0.0
        precision, recall, weight = precision / orders, recall / orders, CHRF.BETA**2
        return 100 * ((1 + weight) * precision * recall / ((weight * precision) + recall))


# By name, each from sacreBLEU's tokenizer of BLEU.
METRICS: dict[str, Callable[[str], Metric]] = {"bleu": Bleu, "chrf": lambda tokenize: Chrf()}


def find_metric(name: str, tokenize: str = "13a") -> Metric:
    """Return the metric `name`; raises `ConfigError` for an unknown one, and as `Bleu` does."""
    if name not in METRICS:
        raise ConfigError(f"--metric: expected one of {', '.join(METRICS)}, found {name!r}")
    return METRICS[name](tokenize)


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise `DataError` unless both sides have the same number of lines, and at least one."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"scoring needs one reference line for each translation, "
            f"found {len(hypotheses):,} translations and {len(references):,} references"
        )
    if not references:
        raise DataError("scoring needs at least one line, found none")


def _ngrams(line: str, n: int) -> Counter[str]:
    """Return the character n-grams of a line without white space."""
    characters = "".join(line.split())
    return Counter(characters[i : i + n] for i in range(len(characters) - n + 1))

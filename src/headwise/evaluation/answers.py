"""Metrics of extractive question answering: exact match and F1 of SQuAD (Rajpurkar et al. 2016, section 6.1)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(answer: str) -> str:
    """Lower-case an answer, remove ASCII punctuation and English articles, and collapse white space."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(predicted: str, gold: Sequence[str]) -> float:
    """Return 100 where the normalized prediction equals one of the gold answers, else 0."""
    return 100.0 * any(normalize(predicted) == normalize(answer) for answer in gold)


def word_f1(predicted: str, gold: Sequence[str]) -> float:
    """Return the maximum word F1 over the gold answers, in percent; two empty answers score 100."""
    return max(_f1(normalize(predicted).split(), normalize(answer).split()) for answer in gold)


def _f1(predicted: list[str], gold: list[str]) -> float:
    if not predicted or not gold:
        return 100.0 * (predicted == gold)
    return 200.0 * (Counter(predicted) & Counter(gold)).total() / (len(predicted) + len(gold))

"""Metrics of predicted labels, spans, answers and retrieved items, in percent.

Spans of IOB2 tags are scored as in CoNLL and in seqeval's strict mode; answers by exact match and F1 of SQuAD
(Rajpurkar et al. 2016, section 6.1).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Return the accuracy in percent; 0 without labels."""
    correct = sum(p == g for p, g in zip(predicted, gold, strict=True))
    return 100.0 * correct / max(1, len(gold))


def by_class(predicted: Sequence[str], gold: Sequence[str], labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return precision, recall and F1 (percent) and support (number of gold labels) of every label.

    Precision without predictions and recall without gold labels are 0, as in scikit-learn with zero_division=0.
    """
    pairs = Counter(zip(predicted, gold, strict=True))
    predicted_counts, gold_counts = Counter(predicted), Counter(gold)
    return {label: _scores(pairs[label, label], predicted_counts[label], gold_counts[label]) for label in labels}


def _scores(correct: int, predicted: int, gold: int) -> dict[str, Any]:
    return {
        "precision": _percent(correct, predicted),
        "recall": _percent(correct, gold),
        "f1": _percent(2 * correct, predicted + gold),
        "support": gold,
    }


def macro_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Return the unweighted mean of the F1 of the labels that are predicted or right anywhere, as scikit-learn does."""
    classes = by_class(predicted, gold, sorted({*predicted, *gold}))
    return sum(scores["f1"] for scores in classes.values()) / max(1, len(classes))


def class_table(classes: dict[str, dict[str, Any]]) -> list[str]:
    """Format the scores of all classes as the lines of a table."""
    width = max(5, *map(len, classes)) if classes else 5
    lines = [f"{'':<{width}}  precision  recall      F1  support"]
    for label, scores in classes.items():
        lines.append(
            f"{label:<{width}}  {scores['precision']:9.2f}  {scores['recall']:6.2f}  {scores['f1']:6.2f}  "
            f"{scores['support']:7,}"
        )
    return lines


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Extract (type, start, end) from IOB2 tags, end exclusive; an I- tag that continues no span is ignored."""
    result, kind, start = [], "", 0
    for index, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            result.append((kind, start, index))
            kind = ""
        if tag.startswith("B-"):
            kind, start = tag[2:], index
    return result


def score_spans(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return precision, recall and F1 of spans in percent, overall and per type; only exact matches count."""
    found, wanted = (
        {(*span, number) for number, tags in enumerate(side) for span in spans(tags)} for side in (predicted, gold)
    )
    counts = [Counter(span[0] for span in part) for part in (found & wanted, found, wanted)]
    types = {kind: _scores(*(count[kind] for count in counts)) for kind in sorted(counts[1] | counts[2])}
    total = _scores(*(count.total() for count in counts))
    return {name: total[name] for name in ("precision", "recall", "f1")} | {"types": types}


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


def accuracy_at(similarities: NDArray[np.floating], k: int) -> float:
    """Return the percentage of queries (rows) whose correct item (the diagonal) is among the k most similar ones.

    Ties count against the query: an item as similar as the correct one ranks above it.
    """
    own = np.diag(similarities)[:, None]
    rank = (similarities >= own).sum(axis=1)  # 1 where no other item is as similar
    return 100.0 * float((rank <= k).mean())

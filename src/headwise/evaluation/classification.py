"""Scores of labels: accuracy, and precision, recall and F1 of each class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Percent of labels that are right; of none, 0."""
    right = sum(p == g for p, g in zip(predicted, gold, strict=True))
    return 100.0 * right / max(1, len(gold))


def by_class(
    predicted: Sequence[str], gold: Sequence[str], labels: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Precision, recall and F1 (percent) and support (gold count) of every label.

    What has no prediction or no gold text has precision or recall 0, as scikit-learn counts with zero_division=0.
    """
    pairs = Counter(zip(predicted, gold, strict=True))
    said, there = Counter(predicted), Counter(gold)
    scores = {}
    for label in labels:
        right = pairs[label, label]
        scores[label] = {
            "precision": _percent(right, said[label]),
            "recall": _percent(right, there[label]),
            "f1": _percent(2 * right, said[label] + there[label]),
            "support": there[label],
        }
    return scores


def macro_f1(classes: dict[str, dict[str, Any]]) -> float:
    """The mean of all classes' F1."""
    return sum(scores["f1"] for scores in classes.values()) / max(1, len(classes))


def class_table(classes: dict[str, dict[str, Any]]) -> list[str]:
    """Lines with every class's scores, for a reader."""
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

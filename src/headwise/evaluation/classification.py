"""Classification metrics: accuracy, and precision, recall and F1 per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def accuracy(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Return the accuracy in percent; 0 without labels."""
    correct = sum(p == g for p, g in zip(predicted, gold, strict=True))
    return 100.0 * correct / max(1, len(gold))


def by_class(
    predicted: Sequence[str], gold: Sequence[str], labels: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return precision, recall and F1 (percent) and support (number of gold labels) of every label.

    Precision without predictions and recall without gold labels are 0, as in scikit-learn with zero_division=0.
    """
    pairs = Counter(zip(predicted, gold, strict=True))
    predicted_counts, gold_counts = Counter(predicted), Counter(gold)
    scores = {}
    for label in labels:
        correct = pairs[label, label]
        scores[label] = {
            "precision": _percent(correct, predicted_counts[label]),
            "recall": _percent(correct, gold_counts[label]),
            "f1": _percent(2 * correct, predicted_counts[label] + gold_counts[label]),
            "support": gold_counts[label],
        }
    return scores


def macro_f1(classes: dict[str, dict[str, Any]]) -> float:
    """Return the unweighted mean of the F1 of all classes."""
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

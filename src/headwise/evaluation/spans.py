"""Spans of IOB2 tags: extraction, and span-level precision, recall and F1 as in CoNLL (through seqeval)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from headwise.errors import ConfigError


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
    """Return precision, recall and F1 of spans in percent, overall and per type; only exact matches count.

    This is seqeval's strict mode with IOB2. Raises `ConfigError` where seqeval isn't installed.
    """
    try:
        from seqeval.metrics import classification_report
        from seqeval.scheme import IOB2
    except ImportError:
        raise ConfigError(
            "tagging.spans: needs the seqeval package, found none; run `pip install headwise[tagging]`"
        ) from None
    types = {tag[2:] for sentence in gold for tag in sentence if tag != "O"}
    types |= {tag[2:] for sentence in predicted for tag in sentence if tag != "O"}
    if not types:
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0, "types": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy deprecations that seqeval 1.2.2 triggers
        report = classification_report(
            [list(s) for s in gold], [list(s) for s in predicted],
            output_dict=True, mode="strict", scheme=IOB2, zero_division=0,  # type: ignore[arg-type]
        )  # fmt: skip
    assert isinstance(report, dict)
    scores_by_name = {
        name: {
            "precision": 100.0 * float(scores["precision"]),
            "recall": 100.0 * float(scores["recall"]),
            "f1": 100.0 * float(scores["f1-score"]),
            "support": int(scores["support"]),
        }
        for name, scores in report.items()
    }
    total = scores_by_name["micro avg"]
    names = [name for name in sorted(types) if name in scores_by_name]
    return {
        "precision": total["precision"],
        "recall": total["recall"],
        "f1": total["f1"],
        "types": {name: scores_by_name[name] for name in names},
    }

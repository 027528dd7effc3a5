"""Spans named by IOB2 tags: where they are, and how many were found (CoNLL's span F1, through seqeval)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from headwise.errors import ConfigError


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Read (type, first word, end) off IOB2 tags; an I- that doesn't go on with its type stands for nothing."""
    found, kind, start = [], "", 0
    for place, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.append((kind, start, place))
            kind = ""
        if tag.startswith("B-"):
            kind, start = tag[2:], place
    return found


def score_spans(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Precision, recall and F1 of whole spans, and of each type, in percent; a span counts if its tags are all right.

    seqeval's strict mode of IOB2. Raises `ConfigError` where seqeval isn't installed.
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
        warnings.simplefilter("ignore")  # numpy's, which seqeval 1.2.2 is older than
        report = classification_report(
            [list(s) for s in gold], [list(s) for s in predicted],
            output_dict=True, mode="strict", scheme=IOB2, zero_division=0,  # type: ignore[arg-type]
        )  # fmt: skip
    assert isinstance(report, dict)
    rounded = {
        name: {
            "precision": 100.0 * float(scores["precision"]),
            "recall": 100.0 * float(scores["recall"]),
            "f1": 100.0 * float(scores["f1-score"]),
            "support": int(scores["support"]),
        }
        for name, scores in report.items()
    }
    total = rounded["micro avg"]
    names = [name for name in sorted(types) if name in rounded]
    return {
        "precision": total["precision"],
        "recall": total["recall"],
        "f1": total["f1"],
        "types": {name: rounded[name] for name in names},
    }

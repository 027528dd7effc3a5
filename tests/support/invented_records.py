"""Invented results of the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.experiments.harness.records import Record, write_record
from headwise.experiments.harness.rows import ExperimentRow


def invent(results: Path, row: ExperimentRow, seed: int, score: float | None, **recipe: Any) -> None:
    """Write a record with this BLEU on both sets; None: the training diverged."""
    result: dict[str, Any] = {"diverged": "step 3: the loss is nan"}
    if score is not None:
        result = {
            "parameters": 1000, "steps": 1000, "target_tokens": 1_000_000, "seconds": 60.0,
            "dev": {"bleu": score, "perplexity": 2.0, "loss": 1.6},
            "test": {
                "bleu": {"score": score}, "tokenized_bleu": {"score": score},
                "by_length": {"5": {"bleu": score + 1}, "9": {"bleu": score - 1}},
            },
            "calibration": {"error": 0.1, "counts": [50], "confidence": [0.5], "accuracy": [0.6]},
            "curve": [
                {"step": 500, "minutes": 1.0, "loss": 2.0, "bleu": score / 2},
                {"step": 1000, "minutes": 2.0, "loss": 1.0, "bleu": score},
            ],
        }  # fmt: skip
    write_record(Record(row.name, row.scale, seed, row.identity(seed), "", result, recipe), results)

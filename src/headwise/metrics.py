"""What a training has recorded in its run directory: metrics.jsonl, and with what the scores were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError
from headwise.parsing import MOST_JSON_BYTES, Malformed, json_value, read_bounded, read_json

MEASURED = "measured.json"  # with what the scores of a trained run were measured
_PARTS = ("hardware", "signatures")


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl; lines that are no record, such as one truncated by a kill, are skipped.

    Raises `CheckpointError` if the file can't be read.
    """
    if not file.exists():
        return []
    records = []
    for line in read_bounded(file, MOST_JSON_BYTES, CheckpointError, "records").split(b"\n"):
        try:
            record = json_value(line, finite=False)
        except Malformed:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int) and "kind" in record:
            records.append(record)
    return records


def averaged_scores(run: Path) -> dict[str, Any]:
    """Return the last record of the averaged model in metrics.jsonl, empty before the end of training."""
    averaged = [record for record in read_metrics(run / "metrics.jsonl") if record["kind"] == "averaged"]
    return averaged[-1] if averaged else {}


def read_measured(run: Path) -> dict[str, Any]:
    """Return the record of a run, empty where there is none for its scores; raises `CheckpointError` if damaged."""
    if not (run / MEASURED).is_file():
        return {}
    record = read_json(run / MEASURED, error=CheckpointError)
    hardware, signatures = (record.get(key) if isinstance(record, dict) else None for key in _PARTS)
    if not isinstance(hardware, dict) or not isinstance(signatures, dict):
        raise CheckpointError(f"{run / MEASURED}: expected an object with {' and '.join(_PARTS)}, found another value")
    return record if record.get("step") == averaged_scores(run).get("step") else {}

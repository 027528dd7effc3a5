"""The training curves of a run, also while it is still training."""

from __future__ import annotations

import math
import time
from typing import Any

from headwise.metrics import read_metrics
from headwise.page.runs import PageRun

_STILL_RUNNING = 120.0  # seconds since the last record, within which an unfinished training counts as running


def read_curves(run: PageRun, after: int = 0) -> dict[str, Any]:
    """Return the records from number `after` on, the number of all records, and whether the training still runs.

    Numbers that aren't finite become None, because JSON has no such numbers.
    """
    file = run.path / "metrics.jsonl"
    records = [{key: _finite(value) for key, value in record.items()} for record in read_metrics(file)]
    ended = any(record.get("kind") == "averaged" for record in records)
    recent = file.exists() and time.time() - file.stat().st_mtime < _STILL_RUNNING
    return {
        "records": records[max(0, after) :],
        "count": len(records),
        "max_steps": run.config.training.max_steps,
        "going_on": recent and not ended,
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value

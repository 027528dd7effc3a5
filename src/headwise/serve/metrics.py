"""The curves of a training, also of one that is still running."""

from __future__ import annotations

import math
import time
from typing import Any

from headwise.serve.runs import Run
from headwise.training.monitor import read_metrics

_GOING_ON = (
    120.0  # seconds since the last record, within which a training that hasn't ended counts as running
)


def read_curves(run: Run, after: int = 0) -> dict[str, Any]:
    """Return the records from record number `after` on, how many there are, and whether the training is still running.

    Numbers that aren't finite are None, as JSON has none.
    """
    file = run.path / "metrics.jsonl"
    records = [{key: _finite(value) for key, value in record.items()} for record in read_metrics(file)]
    ended = any(record.get("kind") == "averaged" for record in records)
    lately = file.exists() and time.time() - file.stat().st_mtime < _GOING_ON
    return {
        "records": records[max(0, after) :],
        "count": len(records),
        "max_steps": run.config.training.max_steps,
        "going_on": lately and not ended,
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value

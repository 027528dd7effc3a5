"""A worker process that can't do its job, in the way that the job says."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from headwise.errors import DataError
from headwise.training.parallel.workers import READY


def work(received: Iterator[dict[str, str]]) -> Iterator[str]:
    job = next(received)
    if job["way"] == "mistake":
        raise DataError("line 3: expected text, found none")
    if job["way"] == "exit":
        sys.exit(7)
    if job["way"] == "imports":
        time.sleep(600)
    yield READY
    if job["way"] == "never joins":
        time.sleep(600)

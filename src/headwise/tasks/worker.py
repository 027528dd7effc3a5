"""A worker process of a training (`python -m headwise.tasks.worker`), with orders from the first process."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headwise.config import Config
from headwise.errors import HeadwiseError
from headwise.tasks.run import work
from headwise.training.workers import orders, report_error

_STOP_TIMEOUT = 5.0  # seconds for the first process to stop this one


def main() -> int:
    """Carry out the job and its orders; return the exit code."""
    lines = orders()
    job = next(lines)
    try:
        work(Config.from_tree(job["config"]), Path(job["run"]), lines)
    except HeadwiseError as error:
        report_error(error)
        return 2
    except RuntimeError:
        # If the first process failed, it stops this one during the wait, and no second error is printed.
        time.sleep(_STOP_TIMEOUT)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())

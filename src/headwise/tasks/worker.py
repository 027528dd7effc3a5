"""A worker process of a training (`python -m headwise.tasks.worker`), which gets its orders from the first one."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headwise.config import Config
from headwise.errors import HeadwiseError
from headwise.tasks.run import work
from headwise.training.workers import orders, report_error

_PATIENCE = 5.0  # seconds for the first process to end this one


def main() -> int:
    """Carry out the job and its orders; returns the exit code."""
    lines = orders()
    job = next(lines)
    try:
        work(Config.from_tree(job["config"]), Path(job["run"]), lines)
    except HeadwiseError as error:
        report_error(error)
        return 2
    except RuntimeError:
        time.sleep(
            _PATIENCE
        )  # where the first process broke off, it ends this one, and nobody needs to read why
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())

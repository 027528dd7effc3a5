"""The tasks of a preparation, and the child process that runs them: a line of JSON in, a line of JSON out."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable

from headwise.errors import HeadwiseError
from headwise.text.preparation.cleaning import clean
from headwise.text.preparation.duplicates import find_duplicates
from headwise.text.preparation.engines import ERRORS, Task
from headwise.text.preparation.selection import select
from headwise.text.preparation.stores import store

_STAGES: dict[str, Callable[[Task], Task]] = {
    "clean": clean,
    "duplicates": find_duplicates,
    "select": select,
    "store": store,
}


def run(task: Task) -> Task:
    """Run a task; the result of one that raises a user's error has it as `error` and `message`."""
    try:
        return _STAGES[task["stage"]](task)
    except HeadwiseError as error:
        name = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        return {"error": name, "message": str(error)}


def _main() -> None:
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a filter that prints must not disturb the results
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    while True:
        output.write(json.dumps(run(json.loads(lines.get()))).encode() + b"\n")
        output.flush()


def _read(lines: queue.SimpleQueue[bytes]) -> None:
    """Pass on the lines of standard input; at its end, the parent has died, and nothing more may be written."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(1)


if __name__ == "__main__":
    _main()

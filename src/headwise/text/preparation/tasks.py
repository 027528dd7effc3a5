"""The tasks of a preparation, and where they run: in processes of this machine, or on Ray Data over a cluster.

A task is a JSON object whose `stage` names a function, and so is its result. It writes files into a folder, under names
of its own, so tasks can run anywhere that has the folder, in any order, and again after a kill. The result is saved
beside them last: a task that has one isn't run again.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import ConfigError, DataError, HeadwiseError, TrainingError
from headwise.files import write_text
from headwise.parsing import read_json
from headwise.processes import child_environment, python_command
from headwise.text.preparation.cleaning import clean
from headwise.text.preparation.tables import find_duplicates, select, store
from headwise.text.reading.compression import extra_module

Task = dict[str, Any]
ENGINES = ("processes", "ray")
ERRORS: dict[str, type[HeadwiseError]] = {
    error.__name__: error for error in (ConfigError, DataError, TrainingError)
}
_STAGES: dict[str, Callable[[Task], Task]] = {
    "clean": clean,
    "duplicates": find_duplicates,
    "select": select,
    "store": store,
}


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """Connect to the Ray cluster that `RAY_ADDRESS` names, or start one on this machine; yields the module `ray`.

    A connection that exists already is used and kept. Raises `ConfigError` if Ray isn't installed.
    """
    ray: Any = extra_module("ray", "ray", "--engine ray")
    if ray.is_initialized():
        yield ray
        return
    ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        yield ray
    finally:
        ray.shutdown()


def run(task: Task) -> Task:
    """Run a task; the result of one that raises a user's error has it as `error` and `message`."""
    try:
        return _STAGES[task["stage"]](task)
    except HeadwiseError as error:
        name = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        return {"error": name, "message": str(error)}


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    *,
    engine: str,
    workers: int,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> list[Task]:
    """Run the tasks that have no result in `folder` yet; returns all results, in the tasks' order.

    Args:
        tasks: each with `stage` and a `name` that is its own.
        folder: where results are saved, which every process can write to.
        engine: `processes` or `ray`.
        workers: number of processes of this machine; 0: one per core.
        advance: called with the number of tasks that are done, and of all.

    Raises a `HeadwiseError` that a task raised, `TrainingError` where a process died.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{task['stage']}-{task['name']}.json" for task in tasks]
    todo = [(task, path) for task, path in zip(tasks, paths, strict=True) if not path.exists()]
    done = len(tasks) - len(todo)
    advance(done, len(tasks))
    run = _on_ray if engine == "ray" else _in_processes
    for number, (path, result) in enumerate(run(todo, workers or os.cpu_count() or 1), start=done + 1):
        if name := result.get("error"):
            raise ERRORS[name](result["message"])
        write_text(path, json.dumps(result))
        advance(number, len(tasks))
    return [read_json(path) for path in paths]


def _in_processes(tasks: Sequence[tuple[Task, Path]], workers: int) -> Iterator[tuple[Path, Task]]:
    """Yield results as they come, from processes that each take one task after the other."""
    processes: list[_Process] = []
    idle: list[_Process] = []

    def work(task: Task) -> Task:
        process = idle.pop() if idle else _Process(processes)
        result = process.ask(task)
        idle.append(process)
        return result

    pool = ThreadPoolExecutor(workers)
    try:
        remaining = iter(tasks)
        running: dict[Future[Task], Path] = {}
        for task, path in remaining:
            running[pool.submit(work, task)] = path
            if len(running) == workers:
                yield from _finished(running)
        while running:
            yield from _finished(running)
    finally:
        for process in processes:
            process.end()
        pool.shutdown(cancel_futures=True)


def _finished(running: dict[Future[Task], Path]) -> Iterator[tuple[Path, Task]]:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


class _Process:
    """A child process that reads tasks and writes results, a line each."""

    def __init__(self, processes: list[_Process]) -> None:
        # A session of its own: Ctrl-C in a terminal reaches the parent process only, which decides what to do.
        self._process = subprocess.Popen(
            python_command("-m", "headwise.text.preparation.tasks"),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        processes.append(self)

    def ask(self, task: Task) -> Task:
        """Return the result of a task; raises `TrainingError` if the process dies."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            raise TrainingError(
                f"{task['stage']} {task['name']}: its process ended with status {self._process.wait()}; "
                "the same command resumes"
            )
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _on_ray(tasks: Sequence[tuple[Task, Path]], workers: int) -> Iterator[tuple[Path, Task]]:
    """Yield results from Ray Data, which runs as many tasks at a time as the cluster has processors."""
    if not tasks:
        return
    with ray_cluster() as ray:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        items = [{"task": json.dumps(task), "path": str(path)} for task, path in tasks]
        results = ray.data.from_items(items, override_num_blocks=len(items)).map(_run_row)
        for row in results.iter_rows():
            yield Path(row["path"]), json.loads(row["result"])


def _run_row(row: dict[str, str]) -> dict[str, str]:
    return {"path": row["path"], "result": json.dumps(run(json.loads(row["task"])))}


# ---------------------------------------- the child process: a line of JSON in, a line of JSON out


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

"""The tasks of a preparation, and where they run: in processes of this machine, or on Ray Data over a cluster.

A task is a JSON object whose `stage` names a function, and so is its result. It writes files into a folder, under names
of its own, so tasks can run anywhere that has the folder, in any order, and again after a kill. The result is saved
beside them last: a task that has one isn't run again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from headwise.errors import TrainingError
from headwise.extras import optional_module
from headwise.files import disk_errors, write_text
from headwise.parsing import read_json
from headwise.processes import ChildEnded, Children, answers, processors, reply_of
from headwise.text.preparation.cleaning import clean
from headwise.text.preparation.tables import find_duplicates, select, store

Task = dict[str, Any]
Results = Generator[tuple[Path, Task], None, None]  # and the paths of the files that they are saved in
Engine = Callable[[Sequence[tuple[Task, Path]]], Results]
ENGINES = ("processes", "ray")
_INTERVAL = 5.0  # seconds between messages
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
    ray: Any = optional_module("ray", "--engine ray")
    if ray.is_initialized():
        yield ray
        return
    ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        yield ray
    finally:
        ray.shutdown()


def run_task(task: Task) -> Task:
    """Run a task here; returns its result. Raises a `HeadwiseError`, or `OSError` where a file can't be written."""
    return _STAGES[task["stage"]](task)


def run_all(tasks: Iterable[Task]) -> Iterator[Task]:
    """Run tasks one after the other, in a child process; yields their results. Raises a `HeadwiseError`."""
    for task in tasks:
        with disk_errors(Path(task["folder"])):
            result = run_task(task)
        yield result


@contextmanager
def open_engine(name: str, workers: int) -> Iterator[Engine]:
    """Open where tasks run, one for all stages of a preparation.

    Args:
        name: `processes` or `ray`.
        workers: number of processes of this machine; 0: one per core.

    Raises `ConfigError` if Ray is asked for and isn't installed.
    """
    if name == "ray":
        with ray_cluster() as ray:
            yield partial(_on_ray, ray)
    else:
        with Children(f"{__name__}:run_all", workers or processors()) as children:
            yield partial(_in_processes, children)


def run_tasks(
    title: str, tasks: Sequence[Task], folder: Path, engine: Engine, say: Callable[[str], None]
) -> list[Task]:
    """Run the tasks that have no result in `folder` yet; returns all results, in the tasks' order.

    Args:
        title: what the tasks do, for messages.
        tasks: each with `stage` and a `name` that is its own.
        folder: where results are saved, which every process can write to.
        engine: what `open_engine` yields.
        say: told how many tasks are done, now and then.

    Raises a `HeadwiseError` that a task raised, `TrainingError` where a process died.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{task['stage']}-{task['name']}.json" for task in tasks]
    todo = [(task, path) for task, path in zip(tasks, paths, strict=True) if not path.exists()]
    total, before = len(tasks), len(tasks) - len(todo)
    if todo:
        if before:
            say(f"{title}: {before:,} of {total:,} tasks are done already")
        started = said = time.monotonic()
        with closing(engine(todo)) as results:
            for done, (path, result) in enumerate(results, start=before + 1):
                write_text(path, json.dumps(result))
                now = time.monotonic()
                if done == total or now - said >= _INTERVAL:
                    said = now
                    left = (now - started) / (done - before) * (total - done)
                    say(f"{title}: {done:,}/{total:,}  {left:,.0f} s left")
    return [read_json(path) for path in paths]


def _in_processes(children: Children, tasks: Sequence[tuple[Task, Path]]) -> Results:
    """Yield results as they come, from processes that each take one task after the other."""
    running = {children.submit(task): (task, path) for task, path in tasks}
    for future in as_completed(running):
        task, path = running.pop(future)
        try:
            yield path, future.result()
        except ChildEnded as end:
            raise TrainingError(
                f"{task['stage']} {task['name']}: its process was ended {end.how}; the same command resumes"
            ) from None


def _on_ray(ray: Any, tasks: Sequence[tuple[Task, Path]]) -> Results:
    """Yield results from Ray Data, which runs as many tasks at a time as the cluster has processors."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    items = [{"task": json.dumps(task), "path": str(path)} for task, path in tasks]
    results = ray.data.from_items(items, override_num_blocks=len(items)).map(_run_row)
    for row in results.iter_rows():
        yield Path(row["path"]), reply_of(json.loads(row["answer"]))


def _run_row(row: dict[str, str]) -> dict[str, str]:
    (answer,) = answers(run_all, [json.loads(row["task"])])
    return {"path": row["path"], "answer": json.dumps(answer)}

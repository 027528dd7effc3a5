"""Where chunks are translated: in this process, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from headwise.tasks.corpus.cluster import cluster
from headwise.tasks.corpus.job import Engine, Work
from headwise.tasks.corpus.runs import engine_of

Row = TypeVar("Row")


@contextmanager
def find_engine(work: Work[Row]) -> Iterator[tuple[Engine[Row], str, str]]:
    """Yield the engine, its description, and its name in the manifest.

    In this process, the translator uses several threads by itself. Raises what loading the runs raises, and for a
    cluster `ConfigError` and `DeviceError`.
    """
    if work.runs.on_cluster:
        with cluster(work.elsewhere()) as workers:
            yield workers.translated, workers.description, workers.engine
    else:
        translator = work.runs.load()
        yield (
            (lambda chunks: (work.translate(translator, rows) for rows in chunks)),
            translator.engine,
            engine_of(translator),
        )

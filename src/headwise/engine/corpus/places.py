"""Where chunks are translated: in this process, or on a Ray cluster.

Every worker of a cluster loads the runs once. Ray restarts a worker that dies, and repeats the chunks that it lost.
Results are yielded in the order of the chunks, so the output doesn't depend on the number of workers. Runs are read by
every worker, so they must be on a file system that all machines share, under the same path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from headwise.engine.corpus.rows import TextRow
from headwise.engine.corpus.runs import engine_of
from headwise.engine.corpus.work import TextWork, TranslatedChunk
from headwise.engine.translator import Translator
from headwise.errors import DeviceError, HeadwiseError, TrainingError
from headwise.text.preparation.tasks import ray_cluster

_AHEAD = 2  # chunks that are given to each worker
_RESTARTS = 1000  # of a worker, by which crashes of machines are survived
_RETRIES = 10  # of a chunk, by which one that crashes every worker is found

# From chunks to their translations, in order.
ChunkTranslator = Callable[[Iterable[Sequence[TextRow]]], Iterator[TranslatedChunk]]


@contextmanager
def find_place(work: TextWork) -> Iterator[tuple[ChunkTranslator, str, str]]:
    """Yield the engine, its description, and its name in the manifest.

    In this process, the translator uses several threads by itself. Raises what loading the runs raises, and for a
    cluster `ConfigError` and `DeviceError`.
    """
    if work.runs.on_cluster:
        with _cluster(replace(work, runs=work.runs.elsewhere())) as workers:
            yield workers.translated, workers.description, workers.engine
    else:
        translator = work.runs.load()
        yield (
            (lambda chunks: (work.translate(translator, rows) for rows in chunks)),
            translator.description,
            engine_of(translator),
        )


class Translating:
    """What runs in a worker."""

    def __init__(self, work: TextWork) -> None:
        """Load the runs."""
        self._work = work
        self._translator: Translator = work.runs.load()

    def describe(self) -> str:
        """Return the description of the engine."""
        return engine_of(self._translator)

    def translate(self, rows: Sequence[TextRow]) -> tuple[str, TranslatedChunk]:
        """Return the engine's description, and the translation of a chunk."""
        return self.describe(), self._work.translate(self._translator, rows)


class Cluster:
    """Workers of a Ray cluster, and the description of their engine."""

    def __init__(self, ray: Any, workers: Sequence[Any]) -> None:
        self._ray, self._workers = ray, workers
        self.engine: str = self._get(workers[0].describe.remote())
        self.description = f"{self.engine}, {len(workers)} Ray worker{'s' if len(workers) > 1 else ''}"

    def translated(self, chunks: Iterable[Sequence[TextRow]]) -> Iterator[TranslatedChunk]:
        """Yield the translations of chunks in order; a bounded number of them is on the way."""
        waiting: deque[Any] = deque()
        for number, rows in enumerate(chunks):
            if len(waiting) == _AHEAD * len(self._workers):
                yield self._next(waiting)
            worker = self._workers[number % len(self._workers)]
            waiting.append(worker.translate.remote(rows))
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: deque[Any]) -> TranslatedChunk:
        engine, result = self._get(waiting.popleft())
        if engine != self.engine:
            raise DeviceError(
                f"--engine ray: expected every worker to translate with {self.engine}, found one with {engine}"
            )
        return result

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, HeadwiseError):
                raise error.cause from None
            raise
        except self._ray.exceptions.RayActorError as error:
            if isinstance(cause := getattr(error, "cause", None), HeadwiseError):
                raise cause from None
            raise TrainingError(
                f"--engine ray: a worker died, {_RETRIES} times with the same lines ({str(error).splitlines()[0]})"
            ) from None


@contextmanager
def _cluster(work: TextWork) -> Iterator[Cluster]:
    """Start workers on the Ray cluster that `RAY_ADDRESS` names, or on the processors of this machine.

    Raises `ConfigError` if Ray isn't installed, `DeviceError` if it has too few processors, and what loading the runs
    raises.
    """
    runs = work.runs
    with ray_cluster() as ray:
        resources = ray.cluster_resources()
        on_gpus = str(runs.engine.get("device", "")).startswith("cuda")
        kind, size = ("GPU", 1) if on_gpus else ("CPU", runs.threads)
        count = int(resources.get(kind, 0)) // size
        if not count:
            raise DeviceError(
                f"--engine ray: expected a cluster with at least {size} {kind}, found {resources.get(kind, 0):g}"
            )
        options = {"num_cpus": 0 if on_gpus else size, "num_gpus": 1 if on_gpus else 0}
        options |= {"max_restarts": _RESTARTS, "max_task_retries": _RETRIES}
        remote = ray.remote(**options)(Translating)
        workers = [remote.remote(work) for _ in range(count)]
        yield Cluster(ray, workers)

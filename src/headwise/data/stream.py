"""Resumable streams of training batches: the position is saved in checkpoints, and validated when it is restored."""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwise.errors import CheckpointError

Batch = TypeVar("Batch")
# An epoch: the example indices of each batch, and a function from a batch's index and examples to a batch.
Epoch: TypeAlias = tuple[Sequence[NDArray[np.int64]], Callable[[int, NDArray[np.int64]], Batch]]

_PREFETCH = 8  # batches that a worker thread makes in advance


@dataclass(frozen=True)
class StandIn(Generic[Batch]):
    """A batch whose loss counts for nothing, for a rank to which `share` gives none.

    Every rank then has gradients of the same parameters, which are summed.
    """

    batch: Batch
    target_tokens: ClassVar[int] = 0


# A batch, with epoch and index of the one after it.
_Item: TypeAlias = tuple[Batch | StandIn[Batch], int, int]


class ResumableStream(ABC, Generic[Batch]):
    """Resumable, endless iterator over training batches.

    `epoch` and `index` are the position of the next batch. A batch depends on the seed and its position only, so a
    restored stream yields the same batches.
    """

    ahead: ClassVar[bool] = False  # whether a worker thread prefetches batches
    name = "batches"

    def __init__(self, identity: Mapping[str, Any], *, seed: int) -> None:
        """Start at the beginning of epoch 0.

        Args:
            identity: the data and settings that determine the batches, as JSON values; it is saved with the position,
                and a stream with another identity refuses to restore it.
            seed: seed of the order and of all random choices.
        """
        self.epoch = self.index = 0
        self.seed = seed
        self.identity = dict(identity)
        self._rank, self._size, self._whole = 0, 1, False
        self._items: Iterator[_Item[Batch]] | None = None
        self._stop: Callable[[], None] = lambda: None

    @abstractmethod
    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:
        """Yield epoch `first` and all later ones; the generator is closed when the stream is."""

    def __iter__(self) -> Iterator[Batch | StandIn[Batch]]:
        """Return the stream itself; it never ends."""
        return self

    def __next__(self) -> Batch | StandIn[Batch]:
        """Return the next batch; a `StandIn` only after `share`.

        Raises:
            CheckpointError: the restored position is past the end of its epoch.
            DataError: an example is longer than a batch.
            TrainingError: the disk is full, if an epoch is written to it.
        """
        if self._items is None:
            self._begin()
        assert self._items is not None
        try:
            batch, self.epoch, self.index = next(self._items)
        except Exception:
            self.close()  # the next call raises it again
            raise
        return batch

    def state(self) -> dict[str, Any]:
        """Return the position of the next batch, and the stream's identity, as JSON values."""
        return {"epoch": self.epoch, "index": self.index, **self.identity}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved position.

        Raises:
            CheckpointError: the position belongs to a stream with other data or settings.
        """
        epoch, index = read_position(state, self.identity, self.name)
        self.close()
        self.epoch, self.index = epoch, index

    def share(self, rank: int, size: int, *, whole: bool = False) -> None:
        """Yield every `size`-th example of each batch, from example `rank` on; a `StandIn` where there is none.

        `size` processes so compute the same batches as one, and have the same position in them. With `whole`, they
        take turns: each gets every `size`-th batch as it is.
        """
        self.close()
        self._rank, self._size, self._whole = rank, size, whole

    def close(self) -> None:
        """Stop making batches; iterating again resumes at the current position."""
        self._stop()
        self._items, self._stop = None, lambda: None

    def random(self, epoch: int, index: int) -> np.random.Generator:
        """Return the random generator for this rank's share of a batch, or of as many batches as there are ranks."""
        return np.random.default_rng([self.seed, epoch, index, self._rank])

    def _own(self, batches: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return this rank's examples: its share of one batch, or one of several batches; none if there are fewer."""
        if not self._whole:
            return batches[0][self._rank :: self._size]
        return batches[self._rank] if self._rank < len(batches) else batches[0][:0]

    def _begin(self) -> None:
        items = self._items_from(self.epoch, self.index)
        if self.ahead:
            worker = _Worker(items)
            self._items, self._stop = worker, worker.stop
        else:
            self._items, self._stop = items, items.close

    def _items_from(self, epoch: int, index: int) -> Generator[_Item[Batch], None, None]:
        step = self._size if self._whole else 1
        with contextlib.closing(self.epochs(epoch)) as epochs:
            for plan, make in epochs:
                check_index(index, plan, epoch)
                for position in range(index, len(plan), step):
                    examples = self._own(plan[position : position + step])
                    made = make(position, examples if len(examples) else plan[position][:1])
                    ends = position + step >= len(plan)
                    yield made if len(examples) else StandIn(made), epoch + ends, 0 if ends else position + step
                epoch, index = epoch + 1, 0


class PlannedStream(ResumableStream[Batch]):
    """Stream of batches whose examples are planned before each epoch.

    Args:
        plan: returns the example indices of each batch of an epoch.
        make: builds a batch from the epoch, its example indices and a random generator.
        identity: JSON values that, with the seed, identify the data and the plan that a position belongs to.
        seed: as for `ResumableStream`.
        name: of the batches, in messages.
    """

    def __init__(
        self,
        plan: Callable[[int], Sequence[NDArray[np.int64]]],
        make: Callable[[int, NDArray[np.int64], np.random.Generator], Batch],
        *,
        identity: Mapping[str, Any],
        seed: int,
        name: str = "batches",
    ) -> None:
        super().__init__({"seed": seed, **identity}, seed=seed)
        self.plan, self.make, self.name = plan, make, name

    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:  # noqa: D102
        for epoch in itertools.count(first):
            yield self.plan(epoch), functools.partial(self._draw, epoch)

    def _draw(self, epoch: int, index: int, examples: NDArray[np.int64]) -> Batch:
        return self.make(epoch, examples, self.random(epoch, index))


class _Worker(Generic[Batch]):
    """A thread that prefetches the items of a generator into a bounded queue."""

    def __init__(self, items: Generator[_Item[Batch], None, None]) -> None:
        self._items = items
        self._queue: queue.Queue[_Item[Batch] | Exception] = queue.Queue(_PREFETCH)
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="batches").start()

    def __iter__(self) -> Iterator[_Item[Batch]]:
        return self

    def __next__(self) -> _Item[Batch]:
        """Return the next item; raises the generator's exception."""
        item = self._queue.get()
        if isinstance(item, Exception):
            self._queue.put(item)  # so that a later call raises it again
            raise item
        return item

    def stop(self) -> None:
        """Tell the thread to end after the current item, without waiting for it."""
        self._stopped.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._items) as items:
                for item in items:
                    self._queue.put(item)
                    if self._stopped.is_set():
                        return
        except Exception as error:
            self._queue.put(error)


def read_position(state: Mapping[str, Any], identity: Mapping[str, Any], what: str = "batches") -> tuple[int, int]:
    """Return epoch and index of the next batch from a saved state; `what` names the batches in messages.

    Raises `CheckpointError` if the state has another `identity`, or no valid position.
    """
    for name, value in identity.items():
        if state.get(name) != value:
            raise CheckpointError(
                f"training can't resume in the middle of an epoch: the checkpoint's {what} were planned with "
                f"{name}={state.get(name)}, found {name}={value}"
            )
    position = []
    for name in ("epoch", "index"):
        number = state.get(name)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CheckpointError(
                f"the checkpoint's position: expected a whole number of at least 0 as {name}, found {number!r}"
            )
        position.append(number)
    return position[0], position[1]


def check_index(index: int, plan: Sized, epoch: int) -> None:
    """Raise `CheckpointError` if an epoch has no batch with this index."""
    if index >= len(plan):
        raise CheckpointError(
            f"the checkpoint's position: expected one of the {len(plan):,} batches of epoch {epoch}, found {index}"
        )

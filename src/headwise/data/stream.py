"""Streams of training batches that resume: what comes next is saved in a checkpoint and checked when it is restored."""

from __future__ import annotations

import contextlib
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
# An epoch: the rows of each batch of this rank, and what makes a batch from its number and its rows.
Epoch: TypeAlias = tuple[Sequence[NDArray[np.int64]], Callable[[int, NDArray[np.int64]], Batch]]

_AHEAD = 8  # batches made before they are asked for


@dataclass(frozen=True)
class StandIn(Generic[Batch]):
    """What a rank computes where a shared batch has fewer rows than there are ranks: its loss counts for nothing.

    Computing it all the same gives every rank gradients of the same parameters, which are then summed.
    """

    batch: Batch
    target_tokens: ClassVar[int] = 0


class ResumableStream(ABC, Generic[Batch]):
    """An endless stream of training batches, whose position can be saved and restored.

    `epoch` and `index` say which batch comes next. Rank r of `world` gets batches r, r + world, … of every epoch, and
    all ranks get equally many. A batch is a function of the seed and its place, so a restored stream gives the same.
    """

    ahead: ClassVar[bool] = False  # whether a thread makes batches before they are asked for
    name: ClassVar[str] = "batches"

    def __init__(self, identity: Mapping[str, Any], *, seed: int, rank: int = 0, world: int = 1) -> None:
        """Start at the beginning of epoch 0.

        Args:
            identity: what a position is a position in, as JSON values; a stream of another identity refuses it.
            seed: of the order, and of all that is drawn.
            rank: which process of `world` this is.
            world: number of processes.
        """
        self.epoch = self.index = 0
        self.seed, self.rank, self.world = seed, rank, world
        self.identity = dict(identity)
        self._share = (0, 1)
        self._made: Iterator[_Made[Batch]] | None = None
        self._stop: Callable[[], None] = lambda: None

    @abstractmethod
    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:
        """Yield epoch `first` and every one after it; it is closed when the stream is."""

    def __iter__(self) -> Iterator[Batch]:
        """The stream itself; it never ends."""
        return self

    def __next__(self) -> Batch | StandIn[Batch]:
        """The next batch; a `StandIn` only after `share`.

        Raises:
            CheckpointError: the restored position is behind the end of its epoch.
            DataError: there are fewer rows than ranks, or a row is longer than a batch.
            TrainingError: the disk is full, where an epoch is written to it.
        """
        if self._made is None:
            self._begin()
        assert self._made is not None
        try:
            made = next(self._made)
        except Exception:
            self.close()  # the next call raises it again
            raise
        self.epoch, self.index = made.epoch, made.index + 1
        if self.index == made.batches:
            self.epoch, self.index = self.epoch + 1, 0
        return made.batch

    def state(self) -> dict[str, Any]:
        """The position after the batches given out so far, and what it is a position in; fit for JSON."""
        return {"epoch": self.epoch, "index": self.index, **self.identity}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved position: the next batch is the one that would have come next.

        Raises:
            CheckpointError: the position belongs to other data or to batches planned otherwise.
        """
        epoch, index = read_position(state, self.identity, self.name)
        self.close()
        self.epoch, self.index = epoch, index

    def share(self, rank: int, size: int) -> None:
        """Give out every `size`-th row of each batch, from row `rank` on; a `StandIn` where there is none.

        So `size` processes compute the same batches as one, and a position in them is the same on all.
        """
        self.close()
        self._share = (rank, size)

    def close(self) -> None:
        """Stop making batches; the stream can still be iterated, and then resumes where it was."""
        self._stop()
        self._made, self._stop = None, lambda: None

    def random(self, epoch: int, index: int) -> np.random.Generator:
        """Return the generator of what is drawn for one batch of this rank, or for its share of a batch."""
        return np.random.default_rng([self.seed, epoch, index, self.rank + self._share[0]])

    def _begin(self) -> None:
        made = self._make_from(self.epoch, self.index)
        if self.ahead:
            worker = _Worker(made)
            self._made, self._stop = worker, worker.stop
        else:
            self._made, self._stop = made, made.close

    def _make_from(self, epoch: int, index: int) -> Generator[_Made[Batch], None, None]:
        with contextlib.closing(self.epochs(epoch)) as epochs:
            for plan, make in epochs:
                check_index(index, plan, epoch)
                for place in range(index, len(plan)):
                    rank, size = self._share
                    rows = plan[place][rank::size]
                    batch = make(place, rows) if len(rows) else StandIn(make(place, plan[place][:1]))
                    yield _Made(epoch, place, len(plan), batch)
                epoch, index = epoch + 1, 0


@dataclass(frozen=True)
class _Made(Generic[Batch]):
    epoch: int
    index: int
    batches: int  # of its epoch
    batch: Batch | StandIn[Batch]


class _Worker(Generic[Batch]):
    """A thread that runs a generator a few items ahead of whoever asks for them."""

    def __init__(self, items: Generator[_Made[Batch], None, None]) -> None:
        self._items = items
        self._made: queue.Queue[_Made[Batch] | Exception] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="batches").start()

    def __iter__(self) -> Iterator[_Made[Batch]]:
        return self

    def __next__(self) -> _Made[Batch]:
        """The next item; raises what the generator raised."""
        made = self._made.get()
        if isinstance(made, Exception):
            self._made.put(made)  # and again, should someone ask again
            raise made
        return made

    def stop(self) -> None:
        """Have the thread end as soon as it is done with the item at hand; doesn't wait for it."""
        self._stopped.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._made.get_nowait()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._items) as items:
                for item in items:
                    self._made.put(item)
                    if self._stopped.is_set():
                        return
        except Exception as error:
            self._made.put(error)


def read_position(
    state: Mapping[str, Any], identity: Mapping[str, Any], what: str = "batches"
) -> tuple[int, int]:
    """Return the epoch and the index in it of the next batch, from a position in `what` of this `identity`.

    Raises `CheckpointError` where it is one in other batches, or isn't a position.
    """
    for name, own in identity.items():
        if state.get(name) != own:
            raise CheckpointError(
                f"training can't go on in the middle of an epoch: the checkpoint's {what} were planned with "
                f"{name}={state.get(name)}, found {name}={own}"
            )
    epoch, index = state.get("epoch"), state.get("index")
    for name, number in (("epoch", epoch), ("index", index)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CheckpointError(
                f"the checkpoint's position: expected a whole number of at least 0 as {name}, found {number!r}"
            )
    assert isinstance(epoch, int)
    assert isinstance(index, int)
    return epoch, index


def check_index(index: int, plan: Sized, epoch: int) -> None:
    """Raise `CheckpointError` where an epoch has no batch of this index."""
    if index >= len(plan):
        raise CheckpointError(
            f"the checkpoint's position: expected one of the {len(plan):,} batches of epoch {epoch}, found {index}"
        )

"""The process group of a training: its ranks, and what they tell each other.

The ranks are those of `torchrun`, or worker processes that `headwise train` starts on this machine
(`headwise.training.parallel.workers`). They share every batch: each computes its part of the examples. Only where the
loss isn't a sum over examples, they take turns, each with a whole batch. With one process, nothing is communicated.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed
from torch.distributed import FileStore, PrefixStore, Store  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.rendezvous import rendezvous

from headwise.errors import HeadwiseError, TrainingError

_GLOO_RELEASE = 0.3  # seconds
_LOOPBACK = ("lo", "lo0")  # loopback interface on Linux and on macOS
_JOINING = timedelta(minutes=2)  # until all ranks have connected to each other, after all have been started
# Ranks wait for work of the first one; a process that ends is noticed at once, one that hangs by the watchdog.
CONNECTION_TIMEOUT = timedelta(days=7)
_POLL = 0.02  # seconds
_START = "start"  # key of the name of the ranks' latest start, in torchrun's store

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class World:
    """The data-parallel ranks of a training, as seen by one of them."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1  # ranks of torchrun on this machine
    shares_batches: bool = False  # whether each batch is divided among the ranks
    threads: int = 0  # CPU threads of each rank, if the machine's threads are divided among the ranks
    meeting: Path | None = None  # rendezvous file of worker processes of this machine
    store: Store | None = None  # of the ranks of torchrun

    @classmethod
    def join(cls, device: str, *, shares_batches: bool = True) -> World:
        """Join the process group that `torchrun` defines in the environment variables, if any.

        Raises `TrainingError` for variables that torchrun can't have set, and if the first rank isn't there in time.
        """
        if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
            return cls()
        rank, size, local_rank = (_announced(n) for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
        if on_gpu:
            torch.cuda.set_device(local_rank)
        try:
            kept, _, _ = next(rendezvous("env://", timeout=_JOINING))  # of all starts of these ranks
        except (ValueError, distributed.DistError) as error:
            reason = str(error).partition("\n")[0]
            raise TrainingError(
                f"torchrun: expected {size} processes to meet, found that they can't ({reason})"
            ) from None
        store = store_of_this_start(kept, rank, size)
        _connect("nccl" if on_gpu else "gloo", store, rank, size)
        here = _announced("LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in os.environ else 1
        return cls(rank, size, local_rank, here, shares_batches=shares_batches, store=store)

    @classmethod
    def join_local(
        cls, rank: int, size: int, threads: int, meeting: Path, check: Callable[[], None] = lambda: None
    ) -> World:
        """Join a process group on this machine; `meeting` is the path of its rendezvous file, which must not exist.

        `check` is called again and again until all ranks have come; it may raise an exception.
        """
        interfaces = [name for _, name in socket.if_nameindex()]
        for name in _LOOPBACK:
            if name in interfaces:  # without it, gloo resolves the host name, which may be any address
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        torch.set_num_threads(threads)
        store = FileStore(str(meeting), size)
        store.set(f"here {rank}", "")
        while not store.check([f"here {other}" for other in range(size)]):
            check()
            time.sleep(_POLL)
        _connect("gloo", store, rank, size)
        return cls(rank, size, rank, shares_batches=True, threads=threads, meeting=meeting)

    @property
    def local(self) -> bool:
        """Whether the ranks are worker processes that the first one has started."""
        return self.meeting is not None

    def board(self) -> Store:
        """Return a store that all ranks can write to and read, on a connection of its own; not for one rank."""
        if self.meeting is not None:
            return FileStore(str(self.meeting), self.size)
        assert self.store is not None
        return self.store.clone()  # pyright: ignore[reportAttributeAccessIssue]  (missing in the stubs)

    def leave(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            distributed.destroy_process_group()
            # A thread of gloo releases the tensors of the last operation shortly after it returns, and needs the
            # interpreter for it. If the interpreter is shutting down by then, the process aborts (torch 2.13).
            time.sleep(_GLOO_RELEASE)

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    def sum(self, *values: float, device: torch.device | None = None) -> list[float]:
        """Sum each number over ranks."""
        if self.size == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.all_reduce(numbers)
        return numbers.tolist()

    def from_first(self, *values: float, device: torch.device | None = None) -> list[float]:
        """Return the first rank's numbers on every rank; those of the others aren't used."""
        return self.sum(*(value if self.first else 0.0 for value in values), device=device)

    def any(self, flag: bool, device: torch.device | None = None) -> bool:
        """Return whether the flag is set on any rank."""
        return self.sum(float(flag), device=device)[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def gather_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, in the order of ranks, on every rank; all must have as many."""
        if self.size == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    def broadcast_parameters(self, tensors: Iterable[Tensor]) -> None:
        """Copy the first rank's parameters to every rank."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        """Let this rank use the CPU threads of all ranks while they wait for it."""
        if not self.threads:
            yield
            return
        torch.set_num_threads(self.threads * self.size)
        try:
            yield
        finally:
            torch.set_num_threads(self.threads)

    def on_first(self, work: Callable[[], _Result], *, heavy: bool = False) -> _Result:
        """Call `work` on the first rank only; every rank returns its result or raises its `HeadwiseError`.

        With `heavy`, it may use the CPU threads of all ranks.
        """
        if self.size == 1:
            return work()
        result, error = None, None
        if self.first:
            try:
                with self.all_threads() if heavy else nullcontext():
                    result = work()
            except HeadwiseError as raised:
                error = raised
        result, error = self.gather((result, error))[0]
        if error is not None:
            raise error
        return cast("_Result", result)

    def in_turn(self, work: Callable[[], _Result]) -> _Result:
        """Call `work` on the first rank and then on the others, for example where they reuse files that it wrote.

        Each rank returns its own result; every rank raises a `HeadwiseError` of the first.
        """
        results: list[_Result] = []
        self.on_first(lambda: results.append(work()))
        return results[0] if results else work()


def _announced(name: str) -> int:
    """Return a number of torchrun's environment variables, some of which clusters set without torchrun."""
    value = os.environ.get(name, "none")
    try:
        return int(value)
    except ValueError:
        raise TrainingError(
            f"torchrun: expected a number in the environment variable {name}, found {value}; start the processes by "
            "torchrun, or remove RANK to train in this one alone"
        ) from None


def _connect(backend: str, store: Store, rank: int, size: int) -> None:
    """Join a process group, of which the ranks connect to each other in time, and then wait for each other's work."""
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_JOINING)
    group = distributed.group.WORLD
    assert group is not None
    group.set_timeout(CONNECTION_TIMEOUT)


def store_of_this_start(kept: Store, rank: int, size: int, timeout: timedelta = _JOINING) -> Store:
    """Return the part of torchrun's store that the ranks of one start agree on.

    torchrun keeps its store when it starts ranks again, with the addresses of those before: a rank that reads one of
    them connects to a process that is gone, or waits for it (torch 2.13). Its count of restarts is no remedy, as every
    machine counts its own. So the first rank chooses a name, to which every other rank answers with a name of its own,
    and the first repeats the answers: a rank that doesn't find its own there has read the name of an earlier start.

    Raises `TrainingError` if a rank doesn't come in time.
    """
    own, deadline = uuid.uuid4().hex, time.monotonic() + timeout.total_seconds()
    if rank == 0:
        answers = [f"{own} {other}" for other in range(1, size)]
        kept.set(_START, own)
        while not kept.check(answers):
            if time.monotonic() > deadline:
                missing = [str(other) for other in range(1, size) if not kept.check([f"{own} {other}"])]
                raise TrainingError(f"{_late(size, timeout)}, found none of rank {', '.join(missing)}")
            time.sleep(_POLL)
        kept.set(f"{own} all", " ".join(kept.get(answer).decode() for answer in answers))
        return PrefixStore(own, kept)
    start = ""
    while time.monotonic() <= deadline:
        if kept.check([_START]) and (latest := kept.get(_START).decode()) != start:
            start = latest
            kept.set(f"{start} {rank}", own)
        if start and kept.check([f"{start} all"]) and own in kept.get(f"{start} all").decode().split():
            return PrefixStore(start, kept)
        time.sleep(_POLL)
    raise TrainingError(f"{_late(size, timeout)}, found none of rank 0 or of another one")


def _late(size: int, timeout: timedelta) -> str:
    return f"torchrun: expected {size} processes to connect within {timeout.total_seconds():g} seconds"

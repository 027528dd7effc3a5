"""Data parallelism: every rank computes its batches or its share of each batch, gradients are summed once a step.

The ranks are those of `torchrun`, each with batches of its own, or worker processes that `headwise train` starts on
this machine (`headwise.training.workers`), which share every batch. In a world of one process every call is a no-op.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn

from headwise.errors import HeadwiseError

_GLOO_LETS_GO = 0.3  # seconds
_LOOPBACK = ("lo", "lo0")  # of Linux, of macOS
_LONGEST_WAIT = timedelta(days=7)  # of workers for the first rank's work; one that ends is noticed at once

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class World:
    """The processes that train together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    shares_batches: bool = False  # whether a batch is computed by all ranks together
    threads: int = 0  # CPU threads of each rank, where this machine's are divided among them

    @classmethod
    def join(cls, device: str) -> World:
        """Join the process group that `torchrun` announces in the environment, if any."""
        if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
            return cls()
        world = cls(
            int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", "0"))
        )
        on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
        if on_gpu:
            torch.cuda.set_device(world.local_rank)
        distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=timedelta(minutes=30))
        return world

    @classmethod
    def join_local(cls, rank: int, size: int, threads: int, meeting: Path) -> World:
        """Join worker processes of this machine, which meet by way of a file that doesn't exist yet."""
        interfaces = [name for _, name in socket.if_nameindex()]
        for name in _LOOPBACK:
            if name in interfaces:  # else gloo would look up the machine's name, which may lead anywhere
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        torch.set_num_threads(threads)
        distributed.init_process_group(
            "gloo", init_method=meeting.as_uri(), rank=rank, world_size=size, timeout=_LONGEST_WAIT
        )
        return cls(rank, size, rank, shares_batches=True, threads=threads)

    def leave(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            distributed.destroy_process_group()
            # A thread of gloo's lets go of the last operation's tensors a moment after all continue, and needs the
            # interpreter for it: where that is being taken down by then, the process aborts (torch 2.13).
            time.sleep(_GLOO_LETS_GO)

    @property
    def first(self) -> bool:
        """Whether this rank writes files and prints."""
        return self.rank == 0

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over ranks, in one flat reduction."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        distributed.all_reduce(flat)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def sum(self, *values: float, device: torch.device | None = None) -> list[float]:
        """Sum each number over ranks."""
        if self.size == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.all_reduce(numbers)
        return numbers.tolist()

    def any(self, flag: bool, device: torch.device | None = None) -> bool:
        """Tell whether any rank says so."""
        return self.sum(float(flag), device=device)[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """Collect one JSON-like value from every rank, on all ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def broadcast_parameters(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the first rank's parameters."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        """Let this rank use the CPU threads of all, who wait for it."""
        if not self.threads:
            yield
            return
        torch.set_num_threads(self.threads * self.size)
        try:
            yield
        finally:
            torch.set_num_threads(self.threads)

    def on_first(self, work: Callable[[], _Result], *, heavy: bool = False) -> _Result:
        """Do something on the first rank alone; its result, or the `HeadwiseError` it raised, reaches all.

        `heavy` work may use the CPU threads of all ranks.
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
        """Do something on the first rank and then on the others, as where those find ready what the first made.

        Each gets its own result; a `HeadwiseError` of the first reaches all.
        """
        done: list[_Result] = []
        self.on_first(lambda: done.append(work()))
        return done[0] if done else work()

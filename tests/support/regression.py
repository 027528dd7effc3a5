"""A training task of least squares, so small that each step can be compared with torch by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config
from headwise.data.stream import StandIn
from headwise.training.loss import LossSum
from headwise.training.parallel.workers import READY, join
from headwise.training.trial import take_part


@dataclass(frozen=True)
class Numbers:
    """A batch of linear regression; as with real batches, the number of target tokens varies."""

    x: Tensor
    y: Tensor
    name: str

    @property
    def target_tokens(self) -> int:
        return len(self.y)


class Stream:
    """Batches of 1, 2, 3, 4, 1, … random examples, each batch a function of its position."""

    def __init__(self) -> None:
        self.position = 0
        self.closed = False
        self.part = slice(None)

    def __iter__(self) -> Iterator[Numbers | StandIn[Numbers]]:
        return self

    def __next__(self) -> Numbers | StandIn[Numbers]:
        self.position += 1
        whole = numbers(self.position)
        part = Numbers(whole.x[self.part], whole.y[self.part], whole.name)
        return part if part.target_tokens else StandIn(whole)

    def share(self, rank: int, size: int, *, whole: bool = False) -> None:
        self.part = slice(rank, None, size)

    def state(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state(self, state: dict[str, Any]) -> None:
        self.position = state["position"]

    def close(self) -> None:
        self.closed = True


def numbers(position: int) -> Numbers:
    random = torch.Generator().manual_seed(position)
    size = 1 + (position - 1) % 4
    return Numbers(torch.randn(size, 3, generator=random), torch.randn(size, generator=random), f"batch {position}")


class Regression:
    """Training task of least squares."""

    d_model = 4
    dev_tokens = 0

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1)
        self.stream = Stream()  # the last one that was begun
        self.scores: list[dict[str, float]] = []  # of validations to come; the last one stays
        self.validated: list[bool] = []  # whether each validation was the final one
        self.at: dict[str, Callable[[], float | None]] = {}  # what happens at a batch, and instead of its loss

    def batches(self) -> Stream:
        self.stream = Stream()
        return self.stream

    def loss(self, batch: Numbers) -> LossSum:
        total = squares(self.model, batch)
        if (instead := self.at.get(batch.name, lambda: None)()) is not None:
            total = total * instead
        return LossSum(total, total.detach() / 2, batch.target_tokens)

    def validate(self, *, final: bool = False) -> dict[str, float]:
        assert not self.model.training
        self.validated.append(final)
        return self.scores.pop(0) if len(self.scores) > 1 else (self.scores or [{}])[0]

    def locate(self, batch: Numbers) -> str:
        return batch.name

    def identity(self) -> dict[str, str]:
        return {"data": "numbers"}


def squares(model: nn.Module, batch: Numbers) -> Tensor:
    return (model(batch.x).squeeze(1) - batch.y).square().sum()


def take_part_in_trials(received: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Carry out orders as a worker process; a `factor` in the job multiplies the losses of batch 2."""
    job = next(received)
    config = Config.from_tree(job["config"])
    task = Regression()
    task.at["batch 2"] = lambda: job.get("factor")
    yield READY
    for order in received:
        world = join(order)
        try:
            take_part(task, config, world, order)
        finally:
            world.leave()

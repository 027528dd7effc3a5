"""The choice of the matrix products by a trial."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.nn.linear import GemmBackend, Linear, linear
from headwise.training.loss import LossSum
from headwise.training.products_trial import faster_products


class Slow(GemmBackend):
    """torch's products, each after a wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.threads = seconds, 0

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        self.threads = torch.get_num_threads()
        time.sleep(self.seconds)
        return super().forward(x, weight, bias)


class Free(GemmBackend):
    """Products that compute nothing."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return x.new_empty(0)

    def input_gradient(self, gradient: Tensor, weight: Tensor) -> Tensor:
        return weight

    def weight_gradient(self, gradient: Tensor, x: Tensor) -> Tensor:
        return x


class Batches:
    target_tokens = 512

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Batches:
        return self

    def share(self, rank: int, size: int, *, whole: bool = False) -> None:
        assert (rank, size) == (0, 1)

    def close(self) -> None:
        pass


class Mapping:
    """A task whose model is one linear map."""

    d_model = 64

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.model, self.dtype = Linear(64, 96), dtype

    def batches(self) -> Any:
        return Batches()

    def loss(self, batch: Batches) -> LossSum:
        time.sleep(0.001)
        x = torch.ones(512, 64, dtype=self.dtype)
        total = linear(x, self.model.weight.to(self.dtype), self.model.bias.to(self.dtype)).float().sum()
        return LossSum(total, total.detach(), batch.target_tokens)

    def validate(self, *, final: bool = False) -> dict[str, float]:
        return {}

    def locate(self, batch: Batches) -> str:
        return ""

    def identity(self) -> dict[str, str]:
        return {}


def choose(native: GemmBackend, task: Mapping | None = None, steps: int = 10**9) -> tuple[str, list[str]]:
    lines: list[str] = []
    config = Config.from_tree({"training": {"max_steps": steps}})
    return faster_products(task or Mapping(), config, 1, native, lines.append), lines


def test_the_faster_products_are_chosen() -> None:
    for native, expected in ((Free(), "native"), (Slow(0.01), "torch")):
        chosen, (line,) = choose(native)
        assert chosen == expected
        beginning = f"training.products={expected}: GFLOP/s of a step's matrix products in a trial with 1 thread: "
        assert line.startswith(beginning)
        speeds = [float(part.split()[0].replace(",", "")) for part in line.removeprefix(beginning).split(", ")]
        assert (speeds[1] > speeds[0]) == (expected == "native")


def test_there_is_no_trial_for_short_trainings_and_other_dtypes() -> None:
    assert choose(Free(), steps=3) == ("torch", [])
    assert choose(Free(), Mapping(torch.bfloat16)) == ("torch", [])


def test_the_trial_has_the_threads_of_one_process_and_changes_nothing() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        task, native = Mapping(), Slow(0.0)
        parameters = [p.detach().clone() for p in task.model.parameters()]
        choose(native, task)
        assert native.threads == 1
        assert torch.get_num_threads() == 2
        for parameter, kept in zip(task.model.parameters(), parameters, strict=True):
            assert torch.equal(parameter, kept)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("value", ["mkl", "1", ""])
def test_other_values_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"training\.products"):
        Config.from_tree({"training": {"products": value}})

"""Products of the float32 matrices on a CPU: those of `training.products`, and a trial for `auto`.

The trial times the largest products of one optimizer step, by torch and by the native library in turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.native.library import Library, find_library
from headwise.nn.linear import GemmBackend, use_gemm
from headwise.nn.native_gemm import NativeGemm
from headwise.training.gradients import LossNotFinite
from headwise.training.parallel.world import World
from headwise.training.task import Task
from headwise.training.trial import GAIN, WORTH, Trial, amount, time_steps, training_seconds

_SHAPES = 8  # number of shapes whose products are timed: those with the most operations
_OPERATIONS = 4e8  # least operations of a timed product: larger ones get fewer rows
_LEAST_ROWS = 256
_PRODUCT_SECONDS = 0.4  # least duration of a trial of products
_LEAST_ROUNDS = 3


def find_products(name: str) -> GemmBackend:
    """Return the products of `training.products`; raises `ConfigError` where these can't be used."""
    if name != "native":
        return GemmBackend()
    library = find_library()
    if isinstance(library, Library):
        return NativeGemm(library)
    raise ConfigError(
        f"training.products: expected torch, because the native library can't be used ({library}), found native"
    )


def choose_products(
    task: Task, config: Config, threads: int, say: Callable[[str], None]
) -> Literal["auto", "torch", "native"]:
    """Return the faster of `torch` and `native`, if native is here; `auto` for a model that isn't in float32."""
    if getattr(task.model, "compute_dtype", torch.float32) != torch.float32:
        return "auto"
    library = find_library()
    if isinstance(library, Library):
        return faster_products(task, config, threads, NativeGemm(library), say)
    say(f"training.products=torch, because the native library can't be used: {library}")
    return "torch"


def faster_products(
    task: Task, config: Config, threads: int, native: GemmBackend, say: Callable[[str], None]
) -> Literal["torch", "native"]:
    """Return the faster of `torch` and `native`, and print the measured speeds.

    Both compute the products of one optimizer step, each with its gradients, with the CPU `threads` of one process.
    The choice is `torch` if the training is too short to gain by another one, or has no float32 products. The
    parameters are unchanged afterwards; the random generators aren't. Where a loss isn't finite, the choice is `torch`,
    and the training reports the loss when it meets it again.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        recorded = _RecordedGemm()
        with use_gemm(recorded):
            seconds = time_steps(task, config, World(), Trial(1, 0.0, steps=1)).seconds
        if not recorded.rows or training_seconds(config, seconds) < WORTH:
            return "torch"
        speeds = _time_products(recorded.rows, {"torch": GemmBackend(), "native": native})
    except LossNotFinite as problem:
        say(f"training.products=torch: the trial ended early, because {problem}")
        return "torch"
    finally:
        torch.set_num_threads(before)
    best = "native" if speeds["native"] > GAIN * speeds["torch"] else "torch"
    measured = ", ".join(f"{speed / 1e9:.1f} with {name}" for name, speed in speeds.items())
    say(
        f"training.products={best}: GFLOP/s of a step's matrix products in a trial with "
        f"{amount(threads, 'thread', 'threads')}: {measured}"
    )
    return best


class _RecordedGemm(GemmBackend):
    """torch's products; `rows` are those of each call, by the (inputs, outputs) of the linear map."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], list[int]] = {}

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        self.rows.setdefault((weight.size(1), weight.size(0)), []).append(x.size(0))
        return super().forward(x, weight, bias)


class _Example:
    """A linear map whose products are timed: the largest of one shape, or some of its rows."""

    def __init__(self, inputs: int, outputs: int, rows: list[int]) -> None:
        timed = min(max(rows), max(_LEAST_ROWS, math.ceil(_OPERATIONS / (2 * inputs * outputs))))
        self.operations = 6 * inputs * outputs * sum(rows)  # of one step
        self.share = timed / sum(rows)
        self.x, self.gradient = torch.ones(timed, inputs), torch.ones(timed, outputs)
        self.weight = torch.ones(outputs, inputs)

    def time(self, products: GemmBackend) -> float:
        """Return the duration of the products in one step in seconds, extrapolated from the timed rows."""
        began = time.perf_counter()
        products.forward(self.x, self.weight)
        products.input_gradient(self.gradient, self.weight)
        products.weight_gradient(self.gradient, self.x)
        return (time.perf_counter() - began) / self.share


def _time_products(rows: dict[tuple[int, int], list[int]], candidates: dict[str, GemmBackend]) -> dict[str, float]:
    """Return the operations per second of each candidate; they take turns."""
    largest = sorted(rows, key=lambda shape: -shape[0] * shape[1] * sum(rows[shape]))[:_SHAPES]
    examples = [_Example(*shape, rows[shape]) for shape in largest]
    times = {name: [[example.time(products)] for example in examples] for name, products in candidates.items()}
    end = time.perf_counter() + _PRODUCT_SECONDS
    rounds = 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() < end:
        for number, example in enumerate(examples):
            for name, products in candidates.items():
                times[name][number].append(example.time(products))
        rounds += 1
    operations = sum(example.operations for example in examples)
    # The fastest call counts; others may have been slowed down by other programs. The first one is a warm-up.
    return {name: operations / sum(min(t[1:]) for t in times[name]) for name in candidates}

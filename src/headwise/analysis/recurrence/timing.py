"""Time of sequential steps against that of a parallel computation, over length, on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.analysis.recurrence.networks import GatedRecurrence, attention_layer
from headwise.analysis.terminal import table_lines

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
_REPEATS = 3


@dataclass(frozen=True)
class Timed:
    """One way of computing a layer: milliseconds for each length, and whether positions wait for each other."""

    name: str
    title: str
    sequential: bool
    milliseconds: tuple[float, ...]


@dataclass(frozen=True)
class Times:
    """The times of all ways, for layers of one width and one sentence at a time; `device` and `threads` of torch."""

    width: int
    device: str
    threads: int
    lengths: tuple[int, ...]
    rows: tuple[Timed, ...]


@torch.inference_mode()
def measure_times(width: int, lengths: Sequence[int] = LENGTHS, *, device: str = "cpu") -> Times:
    """Time a GRU layer position by position and in one call, and attention over all positions at once.

    Forward passes of one sentence without gradients; of each, the best of three after a first one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        gru, attention = GatedRecurrence("gru", width).to(device), attention_layer(width).to(device)
        inputs = [torch.randn(1, length, width, device=device) for length in lengths]
    ways: tuple[tuple[str, str, bool, Callable[[Tensor], Tensor]], ...] = (
        ("gru-steps", "GRU, step by step", True, gru.by_position),
        ("gru", "GRU, one call", True, gru),
        ("attention", "attention", False, attention),
    )
    rows = tuple(
        Timed(name, title, sequential, tuple(_milliseconds(compute, x) for x in inputs))
        for name, title, sequential, compute in ways
    )
    return Times(width, device, torch.get_num_threads(), tuple(lengths), rows)


def _milliseconds(compute: Callable[[Tensor], Tensor], x: Tensor) -> float:
    best = float("inf")
    for _ in range(_REPEATS + 1):
        began = time.perf_counter()
        compute(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return 1000 * best


def time_lines(times: Times) -> list[str]:
    """Return the lines of a table of milliseconds against length."""
    threads = f"{times.threads} thread{'' if times.threads == 1 else 's'}"
    return [
        f"milliseconds of a layer of width {times.width} against the number of tokens ({times.device}, {threads})",
        *table_lines(
            [row.title for row in times.rows],
            [f"n = {length}" for length in times.lengths],
            [[f"{value:.2f}" for value in row.milliseconds] for row in times.rows],
        ),
    ]

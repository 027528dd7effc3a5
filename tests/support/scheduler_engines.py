"""Engines, sentences and options of the tests of the scheduler, small enough to be searched often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from decoding_models import EOS, sentences, tiny_transformer
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import Engine, SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.scheduler import Scheduler
from headwise.models.transformer import Transformer
from native_engines import compiled, native_engine
from waiting import until as until

SIZE = 50
SOURCES = [*sentences(20, SIZE, seed=7), [EOS]]
OPTIONS = [
    SearchOptions(),
    SearchOptions(beam=1),
    SearchOptions(beam=5, n_best=5, alpha=1.3, allow_unknown=True),
    SearchOptions(beam=3, min_length=9, extra_length=12),
    SearchOptions(beam=2, n_best=2, patience=3.0, max_length=7),
]
SAMPLED = SearchOptions(sample=True, n_best=2, max_length=9, seed=4)
ENDLESS = SearchOptions(beam=4, min_length=50_000)  # would take minutes unless cancelled

linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")


@cache
def transformer(positions: str = "learned") -> Transformer:
    return tiny_transformer(SIZE, positions=positions)


@cache
def native(precision: str = "float32", workers: int = 2, positions: str = "learned") -> NativeEngine:
    return native_engine(transformer(positions), precision=precision, workers=workers)


def engines() -> dict[str, Callable[[], Engine]]:
    """Return an engine for each kind of batching, with positions that have no end."""
    return {
        "dynamic": lambda: PyTorchEngine(transformer("none")),
        "continuous": lambda: native(workers=1, positions="none"),
    }


both = pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name, marks=[compiled] if name == "continuous" else []) for name, make in engines().items()],
)


def submit(
    scheduler: Scheduler, source: Sequence[int], options: SearchOptions, *, client: str = "", **more: Any
) -> Future[list[Hypothesis]]:
    """Submit a sentence with its prefix, allowed ids and terms, if any."""
    return scheduler.submit(SearchSentence(source, options, **more), client=client)


def shortlist(source: Sequence[int]) -> NDArray[np.int32]:
    rng = np.random.default_rng(list(source))
    return np.union1d(rng.integers(4, SIZE, 20), EOS).astype(np.int32)


def threads() -> int:
    """Return the number of threads of this process, including the library's."""
    return len(list(Path("/proc/self/task").iterdir()))


def assert_alike(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Compare results of the PyTorch engine, which rounds differently in other batches."""
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.token_log_probabilities == pytest.approx(theirs.token_log_probabilities, abs=1e-4)

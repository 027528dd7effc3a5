"""Ctrl-C while `headwise translate` searches in native code: it ends within a step, and never crashes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from headwise.config import Config
from headwise.native.library import Library, find_library
from program import finish, press_ctrl_c, start
from toy import Toy

pytestmark = pytest.mark.skipif(
    not isinstance(find_library(), Library),
    reason="the native engine was not compiled (pip install -e . with a C++ compiler)",
)


@pytest.fixture
def work(run: Path, toy: Toy) -> list[object]:
    """A translation that takes hours, because each output has at least a hundred thousand tokens."""
    config = Config.load(run / "config.yaml")
    assert config.model.positions == "sinusoidal"  # so that the weights fit any length
    longer = config.with_overrides([f"model.max_length={2**18}"])
    (run / "config.yaml").write_text(longer.to_yaml(), encoding="utf-8")
    return ["translate", run, toy.source, "-s", "min_length=100000", "--engine", "native"]


@contextmanager
def searching(work: list[object], workers: int) -> Iterator[Popen[str]]:
    """Start the translation and wait until its threads search."""
    process = start(*work, "--workers", workers)
    try:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("headwise: native engine"):
            assert process.poll() is None
        time.sleep(0.5)  # the search starts a millisecond after that line
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("workers", [1, 3])
def test_one_ctrl_c_ends_it(work: list[object], workers: int) -> None:
    with searching(work, workers) as process:
        press_ctrl_c(process)
        outcome = finish(process)
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == "headwise: interrupted"
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("seed", range(4))
def test_any_number_at_any_moment_ends_it(work: list[object], seed: int) -> None:
    numbers = random.Random(seed)
    with searching(work, 1 + seed % 3) as process:
        time.sleep(numbers.random() / 10)
        while process.poll() is None:  # also during the shutdown of Python
            press_ctrl_c(process)
            time.sleep(numbers.random() ** 3 / 3)
        outcome = finish(process)
    assert outcome.code == 130, outcome.err
    assert "Traceback" not in outcome.err
    assert "free()" not in outcome.err

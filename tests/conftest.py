"""Fixtures, markers and options of all tests."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import forked as forked_processes
from headwise.extras import installed
from headwise.native import library
from paths import ROOT
from toy import Toy, toy_pairs, write_toy

# assertions show what they compared, as those of tests
pytest.register_assert_rewrite("program", "native_models")

# No deadlines: a test that is slow on a busy machine has not failed.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


# Modules, besides tests/parity, whose outcome floating-point arithmetic could change: computation and training.
NUMERICAL = {
    f"test_{name}"
    for name in (
        *("attention_kinds", "attention_positions", "multihead", "layers", "transformer"),
        *("recurrent", "convolutional", "state_space", "architectures", "device", "loss", "loop"),
        *("checkpoint", "schedule", "learning", "search", "search_properties", "sampling"),
        *("translator", "engines", "native_engine", "native_sampling", "native_shortlist"),
        *("native_numbers", "native_library", "native_job", "scheduler", "scheduler_end"),
        *("shortlist", "heads", "shipped_demo", "models"),
    )
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that also run with other instruction sets as `numerical`."""
    for item in items:
        if item.path.stem in NUMERICAL or item.path.parent.name == "parity":
            item.add_marker(pytest.mark.numerical)


def pytest_collection_finish() -> None:
    """Leave what is imported by now, half a million objects, out of later collections of garbage."""
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--native", type=Path, help="test other libraries of the native engine: those in this folder")


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--native"):
        if not list(folder.glob("_portable.*")):
            raise pytest.UsageError(f"--native {folder}: expected libraries of the native engine, found none")
        library.FOLDER = folder.resolve()


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Written files aren't forced to the disk in this process: tests kill processes, but no machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_curves() -> Iterator[None]:
    """Draw no curves at the end of a training in this process, which takes as long as the rest of a small one."""
    with pytest.MonkeyPatch.context() as patch:
        if installed("torch"):
            patch.setattr("headwise.training.monitor.draw_curves", lambda records, file: None)
        yield


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the Python programs that this process starts, which spares them the imports."""
    monkeypatch.setattr(subprocess, "Popen", forked_processes.Popen)


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """`headwise` in this process, by its arguments; the result is an `Outcome`."""
    from program import call

    return lambda *arguments: call(capsys, *arguments)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the root of the repository, where configs/ and data/ are."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A toy corpus of 400 sentence pairs: about 6 steps per epoch."""
    return write_toy(tmp_path_factory.mktemp("toy"), toy_pairs(400))


@pytest.fixture(scope="session")
def trained(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the toy; tests read it, and damage copies of it."""
    from headwise.cli.main import run as program

    run = tmp_path_factory.mktemp("trained") / "run"
    assert program(["train", "-c", str(toy.config), "--max-steps=6", "-o", str(run)]) == 0
    return run

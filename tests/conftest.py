"""Fixtures, markers and options of all tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import forked as forked_processes
from headwise.extras import installed
from headwise.native import library
from paths import ROOT
from toy import Toy, toy_pairs, write_toy

pytest.register_assert_rewrite(
    "program", "native_models"
)  # assertions show what they compared, as those of tests

# No deadlines: a test that is slow on a busy machine has not failed.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


# Modules, besides tests/parity, whose outcome floating-point arithmetic could change: computation and training.
NUMERICAL = {
    *(
        "test_attention_kinds",
        "test_attention_positions",
        "test_multihead",
        "test_layers",
        "test_transformer",
    ),
    *("test_recurrent", "test_convolutional", "test_state_space", "test_architectures", "test_device"),
    *("test_loss", "test_loop", "test_checkpoint", "test_schedule", "test_learning"),
    *("test_search", "test_search_properties", "test_sampling", "test_translator", "test_engines"),
    *(
        "test_native_engine",
        "test_native_sampling",
        "test_native_shortlist",
        "test_native_numbers",
        "test_native_library",
        "test_native_job",
        "test_scheduler",
        "test_scheduler_end",
        "test_shortlist",
        "test_heads",
        "test_shipped_demo",
        "test_models",
    ),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that also run with other instruction sets as `numerical`."""
    for item in items:
        if item.path.stem in NUMERICAL or item.path.parent.name == "parity":
            item.add_marker(pytest.mark.numerical)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--native", type=Path, help="test other libraries of the native engine: those in this folder"
    )


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--native"):
        if not list(folder.glob("_portable.*")):
            raise pytest.UsageError(f"--native {folder}: expected libraries of the native engine, found none")
        library.FOLDER = folder.resolve()


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
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the root of the repository, where configs/ and data/ are."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A toy corpus of 400 sentence pairs: about 6 steps per epoch."""
    return write_toy(tmp_path_factory.mktemp("toy"), toy_pairs(400))

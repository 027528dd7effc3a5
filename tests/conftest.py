"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headwise.decoding.native import library
from toy import Toy, toy_pairs, write_toy

# A busy machine is slow, and that is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


# Tests of what is computed that import no torch themselves: they use Headwise as its users do.
NUMERICAL = {
    *("test_learning", "test_resume", "test_encoder_runs", "test_denoising_runs"),
    *("test_cli_translate", "test_explaining", "test_shortlist"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose outcome the processor's arithmetic could change."""
    for item in items:
        module = item.getparent(pytest.Module)
        if module is not None and (hasattr(module.obj, "torch") or module.path.stem in NUMERICAL):
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


@pytest.fixture
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where configs/ and data/ are."""
    monkeypatch.chdir(Path(__file__).parents[1])


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """400 pairs: about 6 steps an epoch."""
    return write_toy(tmp_path_factory.mktemp("toy"), toy_pairs(400))

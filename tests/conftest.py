"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from toy import Toy, toy_pairs, write_toy

# A busy machine is slow, and that is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where configs/ and data/ are."""
    monkeypatch.chdir(Path(__file__).parents[1])


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """400 pairs: about 6 steps an epoch."""
    return write_toy(tmp_path_factory.mktemp("toy"), toy_pairs(400))

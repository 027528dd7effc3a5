"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from toy import Toy, toy_pairs, write_toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """400 pairs: about 6 steps an epoch."""
    return write_toy(tmp_path_factory.mktemp("toy"), toy_pairs(400))

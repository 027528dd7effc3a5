"""Fixtures of the system tests, which run Headwise by its commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from program import Call, Outcome
from toy import Toy


@pytest.fixture
def train(program: Call, toy: Toy) -> Call:
    """Train the toy's model for six steps; the arguments are the run directory and more of the command's."""

    def trained(run: Path, *more: object) -> Outcome:
        return program("train", "-c", toy.config, "--max-steps=6", "-o", run, *more)

    return trained


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))

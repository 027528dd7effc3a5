"""Fixtures of the system tests, which run Headwise by its commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwise.cli.main import run as run_program
from program import Call, call
from toy import Toy


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Call:
    return lambda *arguments: call(capsys, *arguments)


@pytest.fixture(scope="session")
def trained(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests read it, and damage copies of it."""
    run = tmp_path_factory.mktemp("trained") / "run"
    assert run_program(["train", "-c", str(toy.config), "--max-steps=6", "-o", str(run)]) == 0
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))

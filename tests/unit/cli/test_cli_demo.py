"""`headwise demo` resumes what was interrupted, and replaces nothing but a demo's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwise.config import Config
from program import Call
from translator_run import make_run


def test_an_interrupted_demo_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Call) -> None:
    restarts = []

    def interrupted(config: Config, run: Path, *, restart: bool, quiet: bool) -> Any:
        restarts.append(restart)
        (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
        (run / "latest").write_text("step-00000050")
        raise KeyboardInterrupt

    monkeypatch.setattr("headwise.tasks.run.train", interrupted)
    demo = ("demo", "--out", tmp_path / "demo")
    for arguments in (demo, demo, (*demo, "--seed", 2)):
        assert program(*arguments).code == 130
    assert restarts == [True, False, True]
    (tmp_path / "demo" / "model.safetensors").touch()  # it has ended
    program(*demo, "--seed", 2)
    assert restarts[-1]


def test_a_run_that_is_no_demo_stays(tmp_path: Path, program: Call) -> None:
    run = make_run(tmp_path / "run")
    before = {file: file.read_bytes() for file in run.iterdir()}
    assert "--out" in program("demo", "--out", run).error
    assert {file: file.read_bytes() for file in run.iterdir()} == before

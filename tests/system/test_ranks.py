"""Two data-parallel ranks under torchrun: the same results as one process, also after stopping and resuming."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from program import (
    Outcome,
    assert_stopped,
    finish,
    result,
    wait_for_steps,
)
from ranks import start_ranks
from toy import Toy


def two(*arguments: object) -> Outcome:
    return finish(start_ranks(2, *arguments))


@pytest.fixture(scope="module")
def undisturbed(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert two("train", "-c", toy.config, "--max-steps", 30, "-o", run).code == 0
    return run


@pytest.mark.slow
def test_two_processes_stop_and_resume_exactly(toy: Toy, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "--max-steps", 30, "-o", run)
    process = start_ranks(2, *command)
    wait_for_steps(run, process)
    process.send_signal(signal.SIGTERM)  # torchrun passes it on
    assert_stopped(finish(process), run, 30, launcher=True)
    again = two(*command)
    assert again.code == 0, again.err
    assert again.err.count("resuming from") == again.err.count("done: ") == 1  # printed by one rank only
    assert result(run) == result(undisturbed)


def test_a_mistake_ends_both_processes(toy: Toy, tmp_path: Path) -> None:
    outcome = two("train", "-c", toy.config, "subwords.size=1000", "-o", tmp_path / "run")
    assert outcome.code != 0
    assert "headwise: error: subwords.size: expected at most " in outcome.err
    assert "src/headwise/" not in outcome.err  # the only traceback is that of torchrun

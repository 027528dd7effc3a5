"""Training in several processes of this machine: the same batches, the same errors, stops and resumptions as in one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwise.config import Config
from headwise.native.library import find_library
from headwise.tasks import run as tasks_run
from headwise.training import products_trial, resolution
from headwise.training.checkpoint import read_state
from headwise.training.pace import Overhead, Pace
from program import (
    Call,
    assert_same_result,
    assert_same_training,
    assert_stopped,
    assert_stopped_at_once,
    finish,
    headwise,
    metrics,
    press_ctrl_c,
    result,
    saved_step,
    start,
    wait_for,
    wait_for_steps,
)
from ranks import ranks_of
from toy import NOTHING_RANDOM, PLAIN_STEPS, Toy
from waiting import until

STEPS = 30


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Process ids of the workers that a training has started."""
    return [rank.pid for rank in ranks_of(process)]


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(scope="module")
def undisturbed(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    outcome = headwise("train", "-c", toy.config, "training.processes=2", f"--max-steps={STEPS}", "-o", run).ok()
    assert "float32 on cpu, 2 processes" in outcome.err
    return run


@pytest.mark.parametrize(
    ("processes", "tokens"),
    [
        pytest.param(2, 200, id="2"),
        pytest.param(4, 20, id="4, more than most batches have sentences", marks=pytest.mark.slow),
    ],
)
def test_processes_share_the_batches_of_one(
    processes: int, tokens: int, toy: Toy, tmp_path: Path, program: Call
) -> None:
    changes = [*NOTHING_RANDOM, *PLAIN_STEPS, f"batch.tokens={tokens}", "--max-steps=4"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    program("train", "-c", toy.config, *changes, "-o", alone).ok()
    headwise("train", "-c", toy.config, *changes, f"training.processes={processes}", "-o", together).ok()
    assert_same_training(together, alone)


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(press_ctrl_c, id="Ctrl-C"),
        pytest.param(subprocess.Popen.terminate, id="SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_training_resumes_exactly(interrupt: object, toy: Toy, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "training.processes=2", "--max-steps", STEPS, "-o", run)
    process = start(*command)
    wait_for_steps(run, process)
    (worker,) = workers_of(process)
    assert callable(interrupt)
    interrupt(process)
    assert_stopped(finish(process), run, STEPS)
    assert not is_alive(worker)
    # Its own configuration knows the number, which needn't be said again.
    again = headwise("train", "-c", toy.config, "--max-steps", STEPS, "-o", run).ok()
    assert again.err.count("resuming from") == 1
    assert result(run) == result(undisturbed)


@pytest.mark.slow
def test_a_second_ctrl_c_ends_all_at_once(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    long_steps = ("training.processes=2", "batch.accumulate=60", "training.checkpoint_every=1")
    process = start("train", "-c", toy.config, *long_steps, "-o", run)
    wait_for(lambda: saved_step(run) == 1, process)
    (worker,) = workers_of(process)  # takes longer than the rest of the work after a save
    press_ctrl_c(process)
    time.sleep(0.1)
    press_ctrl_c(process)
    assert_stopped_at_once(finish(process))
    assert not is_alive(worker)


def test_a_worker_that_is_killed_ends_the_training_with_a_sentence(toy: Toy, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "training.processes=2", f"--max-steps={STEPS}", "-o", run)
    process = start(*command)
    wait_for_steps(run, process)
    (worker,) = workers_of(process)
    os.kill(worker, signal.SIGKILL)
    outcome = finish(process)
    assert outcome.error.startswith("worker process 1 was ended by SIGKILL ")
    headwise(*command).ok()
    assert result(run) == result(undisturbed)


@pytest.mark.slow
def test_workers_end_with_the_first_process(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("train", "-c", toy.config, "training.processes=3", "--max-steps=10000", "-o", run)
    wait_for_steps(run, process)
    workers = workers_of(process)
    assert len(workers) == 2
    process.kill()
    finish(process)
    until(lambda: not any(map(is_alive, workers)))


def test_a_mistake_is_told_once(toy: Toy, tmp_path: Path) -> None:
    command = ("train", "-c", toy.config, "training.processes=2", "-o", tmp_path / "run")
    assert headwise(*command, "subwords.size=1000").error.startswith("subwords.size: expected at most ")
    diverged = headwise(*command, "schedule.scale=1e30", "training.threads=1")
    assert "the loss is " in diverged.error
    assert diverged.err.count("the loss is ") == 1


@pytest.mark.slow
def test_the_number_is_chosen_by_a_trial_and_kept(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "training.threads=2", "--max-steps=1000000", "-o", run)
    process = start(*command)
    wait_for_steps(run, process)
    press_ctrl_c(process)
    stopped = finish(process)
    assert stopped.code == 130, stopped.err
    number = yaml.safe_load((run / "config.yaml").read_text())["training"]["processes"]
    assert number in (1, 2)
    assert f"training.processes={number}: target tokens/s in a trial: " in stopped.err
    again = headwise(*command[:-3], f"--max-steps={saved_step(run)}", "-o", run).ok()
    assert "trial" not in again.err


@pytest.mark.usefixtures("forked")
def test_what_a_trial_during_training_chooses_trains_on_as_after_an_interruption(
    toy: Toy, tmp_path: Path, program: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process, then two, which a second trial keeps, then one; with dropout, whose masks differ by process."""
    by_hand, by_trials = tmp_path / "by hand", tmp_path / "by trials"
    command = ("train", "-c", toy.config, "training.threads=2")
    for processes, steps in ((1, 2), (2, 6), (1, 8)):
        keys = (f"training.processes={processes}", f"--max-steps={steps}")
        program(*command, *keys, "-o", by_hand).ok()

    chosen, affords = iter([1, 2, 2, 1]), Pace.affords
    due = {2, 4, 6}

    def resolve_by_trials(task: Any, config: Config, *_: Any, **options: Any) -> Config:
        return config.with_overrides([f"training.processes={next(chosen)}"])

    def affords_trials(self: Pace, kind: Overhead) -> bool:
        if kind != "trial":
            return affords(self, kind)
        return self._progress.step in due and not due.discard(self._progress.step)

    for module in (tasks_run, resolution):
        monkeypatch.setattr(module, "resolve_by_trials", resolve_by_trials)
    monkeypatch.setattr(Pace, "affords", affords_trials)
    outcome = program(*command, "--max-steps=8", "-o", by_trials).ok()
    assert re.findall(r"step (\d): trying the numbers of processes again", outcome.err) == ["2", "4", "6"]
    assert outcome.err.count("2 processes, configuration") == 2
    ours, expected = (
        (run / "checkpoints" / "step-00000008" / "model.safetensors").read_bytes() for run in (by_trials, by_hand)
    )
    assert ours == expected
    assert yaml.safe_load((by_trials / "config.yaml").read_text())["training"]["processes"] == 1
    spent = read_state(by_trials / "checkpoints" / "step-00000008")["progress"]["timing"]["spent"]
    assert spent["trial"] > 0


def test_short_trainings_have_no_trial(toy: Toy, tmp_path: Path, program: Call) -> None:
    short = ("training.threads=2", "--max-steps=3")
    outcome = program("train", "-c", toy.config, *short, "-o", tmp_path / "run").ok()
    assert "trial" not in outcome.err
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["training"]["processes"] == 1


@pytest.mark.slow
@pytest.mark.skipif(isinstance(find_library(), str), reason="the native library was not compiled")
def test_native_gemm_train_the_same_and_resume_exactly(toy: Toy, undisturbed: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    command = ("train", "-c", toy.config, "training.processes=2")
    native = headwise(*command, "training.products=native", f"--max-steps={STEPS}", "-o", whole).ok()
    assert "2 processes, native matrix products, configuration" in native.err
    losses = [[record["loss"] for record in metrics(run, "train")] for run in (whole, undisturbed)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    headwise(*command, "training.products=native", "--max-steps=10", "-o", parts).ok()
    # Its own configuration knows the products, which needn't be said again.
    again = headwise(*command, "training.products=auto", f"--max-steps={STEPS}", "-o", parts).ok()
    assert "native matrix products" in again.err
    assert_same_result(parts, whole, at=10)


def test_native_gemm_without_the_library(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Call
) -> None:
    monkeypatch.setattr(products_trial, "find_library", lambda: "it was not compiled")
    outcome = program("train", "-c", toy.config, "training.products=native", "-o", tmp_path / "run")
    assert outcome.error == (
        "training.products: expected torch, because the native library can't be used (it was not compiled), "
        "found native"
    )
    outcome = program("train", "-c", toy.config, "training.products=auto", "-o", tmp_path / "run").ok()
    assert "training.products=torch, because the native library can't be used: it was not compiled" in outcome.err
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["training"]["products"] == "torch"

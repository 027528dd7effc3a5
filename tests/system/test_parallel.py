"""DDP and FSDP2 with 1, 2 and 4 processes: the same parameters, also where the number changes on the way."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headwise.cli.main import run as run_program
from program import (
    Call,
    Outcome,
    assert_same_training,
    assert_stopped,
    finish,
    headwise,
    metrics,
    result,
    saved_step,
    start,
    wait_for,
    wait_for_steps,
)
from ranks import ranks_of, start_ranks
from toy import NOTHING_RANDOM, PLAIN_STEPS, Toy

PLAIN = (*NOTHING_RANDOM, *PLAIN_STEPS, "training.checkpoint_every=2", "training.validate_every=1000")
FSDP = "training.parallel=fsdp"


@pytest.fixture(scope="module")
def alone(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process."""
    run = tmp_path_factory.mktemp("alone") / "run"
    assert run_program(["train", "-c", str(toy.config), *PLAIN, "--max-steps=6", "-o", str(run)]) == 0
    return run


def test_a_sharded_model_is_trained_as_a_whole_one_and_resumes_in_one_process(
    toy: Toy, alone: Path, tmp_path: Path, program: Call
) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, *PLAIN, "-o", run)
    headwise(*command, "training.processes=2", FSDP, "--max-steps=3").ok()
    again = program(*command, "training.processes=1", "--max-steps=6").ok()
    assert "(step 3, saved by 2 processes)" in again.err
    assert_same_training(run, alone, "train")  # it was validated at its third step, too


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_muons_matrices_are_divided_over_the_processes(parallel: str, toy: Toy, tmp_path: Path, program: Call) -> None:
    """Three processes, which the two matrices of a shape are not divided over evenly; one resumes what they began.

    Rounding errors are larger than with other optimizers, because small singular values become large.
    """
    command = ("train", "-c", toy.config, *PLAIN, "optimizer.name=muon", "schedule.warmup=2")
    one, several = tmp_path / "one", tmp_path / "several"
    program(*command, "--max-steps=6", "-o", one).ok()
    options = ("training.processes=3", f"training.parallel={parallel}", "--max-steps=4")
    headwise(*command, *options, "-o", several).ok()
    again = program(*command, "training.processes=1", "--max-steps=6", "-o", several).ok()
    assert "(step 4, saved by 3 processes)" in again.err
    before, ours, expected = (
        load_file(file)
        for file in (
            several / "checkpoints" / "step-00000004" / "model.safetensors",
            *(run / "checkpoints" / "step-00000006" / "model.safetensors" for run in (several, one)),
        )
    )
    for name, tensor in expected.items():
        change = (tensor - before[name]).norm()
        assert (ours[name] - tensor).norm() < 1e-2 * change, name


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    "more",
    [(), ("optimizer.clip_norm=0.1",), ("training.r_drop=1", "model.positions=t5")],
    ids=["plain", "clipped", "R-Drop and shared positions"],
)  # fmt: skip
def test_fifty_steps_of_several_processes(
    processes: int, parallel: str, more: tuple[str, ...], toy: Toy, tmp_path: Path
) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    command = ("train", "-c", toy.config, *PLAIN, *more, "--max-steps=50")
    headwise(*command, "training.processes=1", "-o", one).ok()
    headwise(*command, f"training.processes={processes}", f"training.parallel={parallel}", "-o", several).ok()
    assert_same_training(several, one)


@pytest.mark.parametrize("parallel", [pytest.param("ddp", marks=pytest.mark.slow), "fsdp"])
def test_an_adaptation_in_two_processes(parallel: str, trained: Path, toy: Toy, tmp_path: Path, program: Call) -> None:
    command = ("train", "--from", trained, "-c", toy.config, *PLAIN, "schedule.scale=20", "--max-steps=6")
    one, two = tmp_path / "one", tmp_path / "two"
    program(*command, "training.processes=1", "-o", one).ok()
    headwise(*command, "training.processes=2", f"training.parallel={parallel}", "-o", two).ok()
    assert_same_training(two, one)
    before, after, expected = (load_file(run / "model.safetensors") for run in (trained, two, one))
    learned = {name for name in before if (after[name] - before[name]).abs().max() > 1e-4}
    assert any(name.startswith("decoder.") for name in learned)
    assert any(name.startswith("encoder.") for name in learned)
    for name, tensor in after.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [(4, 2, 1), (1, 4)], ids=str)
def test_a_checkpoint_is_resharded(numbers: tuple[int, ...], toy: Toy, tmp_path: Path, program: Call) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    steps = 4 * len(numbers)
    command = ("train", "-c", toy.config, *PLAIN)
    program(*command, f"--max-steps={steps}", "-o", whole).ok()
    for part, number in enumerate(numbers, start=1):
        changes = (f"training.processes={number}", FSDP, f"--max-steps={4 * part}")
        headwise(*command, *changes, "-o", parts).ok()
    assert_same_training(parts, whole, "train")


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_killed_rank_is_started_again_and_nothing_is_lost(parallel: str, toy: Toy, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    command = (
        "train", "-c", toy.config, "training.checkpoint_every=1", "training.validate_every=1000", "--max-steps=80",
        f"training.parallel={parallel}",
    )  # fmt: skip
    finish(start_ranks(2, *command, "-o", whole)).ok()
    process = start_ranks(2, *command, "-o", run, launcher=("--max-restarts", "3"))
    for kill in range(1, 3):
        wait_for(lambda kill=kill: saved_step(run) > 10 * kill and len(ranks_of(process)) == 2, process)
        ranks_of(process)[kill % 2].kill()
        time.sleep(1)
    outcome = finish(process).ok()
    assert "resuming from" in outcome.err
    assert [record["step"] for record in metrics(run, "train")] == list(range(1, 81))
    assert result(run) == result(whole)


@pytest.mark.slow
def test_a_rank_that_hangs_ends_the_job_with_its_name(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "training.rank_timeout=3", "--max-steps=1000000", "-o", run)
    process = start_ranks(2, *command)
    wait_for(lambda: saved_step(run) > 2 and len(ranks_of(process)) == 2, process)
    hung = ranks_of(process)[1]
    hung.send_signal(signal.SIGSTOP)
    outcome = finish(process)
    assert outcome.code != 0
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("headwise: error: no progress")]
    assert f"rank 1 (process {hung.pid} on " in line


@pytest.mark.slow
def test_a_worker_that_hangs_is_killed(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "training.rank_timeout=3", "training.processes=2")
    process = start(*command, "--max-steps=1000000", "-o", run)
    wait_for(lambda: saved_step(run) > 2, process)
    (worker,) = ranks_of(process)
    worker.send_signal(signal.SIGSTOP)
    outcome = finish(process)
    assert f"at rank 1 (process {worker.pid} on " in outcome.err
    assert outcome.error.startswith("worker process 1 was ended by SIGKILL")


def two(*arguments: object) -> Outcome:
    return finish(start_ranks(2, *arguments))


@pytest.mark.slow
def test_two_ranks_stop_and_resume_exactly(toy: Toy, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    command = ("train", "-c", toy.config, "--max-steps", 30, "-o")
    two(*command, whole).ok()
    process = start_ranks(2, *command, run)
    wait_for_steps(run, process)
    process.send_signal(signal.SIGTERM)  # torchrun passes it on
    assert_stopped(finish(process), run, 30, launcher=True)
    again = two(*command, run).ok()
    assert again.err.count("resuming from") == again.err.count("done: ") == 1  # printed by one rank only
    assert result(run) == result(whole)


@pytest.mark.slow
def test_a_mistake_ends_both_ranks(toy: Toy, tmp_path: Path) -> None:
    outcome = two("train", "-c", toy.config, "subwords.size=1000", "-o", tmp_path / "run")
    assert outcome.code != 0
    assert "headwise: error: subwords.size: expected at most " in outcome.err
    assert "src/headwise/" not in outcome.err  # the only traceback is that of torchrun

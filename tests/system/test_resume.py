"""A run that was interrupted at any time and in any way gives the same result as an uninterrupted one."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise.cli.main import run as run_program
from program import (
    Call,
    assert_same_result,
    assert_stopped,
    assert_stopped_at_once,
    finish,
    headwise,
    metrics,
    press_ctrl_c,
    result,
    saved_step,
    snapshot,
    start,
    wait_for,
    wait_for_steps,
)
from toy import Toy, toy_pairs, write_toy

STEPS = 90  # about two seconds of training
OFTEN = ("training.checkpoint_every=10", "training.validate_every=30")


@pytest.fixture(scope="module")
def undisturbed(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert run_program(["train", "-c", str(toy.config), *OFTEN, f"--max-steps={STEPS}", "-o", str(run)]) == 0
    return run


def test_a_run_resumed_in_a_new_process_equals_an_uninterrupted_one(toy: Toy, tmp_path: Path, program: Call) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    program("train", "-c", toy.config, "-o", whole).ok()
    program("train", "-c", toy.config, "-o", parts, "--max-steps=10").ok()  # within an epoch
    assert saved_step(parts) == 10
    assert "resuming from" in headwise("train", "-c", toy.config, "-o", parts).ok().err
    assert (parts / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert_same_result(parts, whole, at=10)


def test_every_source_of_randomness_is_active(toy: Toy, tmp_path: Path, program: Call) -> None:
    """Otherwise the tests of this file would prove less: switching off any source changes the first loss."""
    losses = []
    for name, changes in {
        "as-it-is": [],
        "no-dropout": ["model.dropout=0", "model.attention_dropout=0"],
        "no-bpe-dropout": ["subwords.dropout=0"],
        "one-batch": ["batch.accumulate=1"],
    }.items():
        program("train", "-c", toy.config, "-o", tmp_path / name, "--max-steps=1", *changes).ok()
        losses.append(metrics(tmp_path / name, "train")[0]["loss"])
    assert len(set(losses)) == len(losses)


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(press_ctrl_c, id="Ctrl-C"),
        pytest.param(subprocess.Popen.terminate, id="SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_an_interruption_finishes_the_step_and_saves(
    interrupt: Callable[[subprocess.Popen[str]], None],
    toy: Toy,
    undisturbed: Path,
    tmp_path: Path,
    program: Call,
) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, *OFTEN, "--max-steps", STEPS, "-o", run)
    process = start(*command, "training.checkpoint_every=1000")  # only the interruption saves a checkpoint
    wait_for_steps(run, process)
    interrupt(process)
    assert_stopped(finish(process), run, STEPS)
    assert [record["step"] for record in metrics(run, "train")] == list(range(1, saved_step(run) + 1))
    assert not (run / "model.safetensors").exists()
    program(*command).ok()
    assert result(run) == result(undisturbed)


def test_a_second_interruption_stops_at_once_and_harms_nothing(toy: Toy, tmp_path: Path, program: Call) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, "batch.accumulate=120", "training.checkpoint_every=1", "-o", run)
    process = start(*command)
    wait_for(lambda: saved_step(run) == 1, process)
    time.sleep(0.05)  # the rest of the work after a save
    saved = snapshot(run / "checkpoints")
    press_ctrl_c(process)  # in the second step, which takes most of a second
    time.sleep(0.1)
    press_ctrl_c(process)
    assert_stopped_at_once(finish(process))
    assert snapshot(run / "checkpoints") == saved
    program(*command, "--max-steps", 1).ok()
    assert snapshot(run / "checkpoints") == saved


def test_an_interruption_while_the_text_is_prepared_leaves_no_half_store(tmp_path: Path) -> None:
    toy, run = write_toy(tmp_path, toy_pairs(20_000)), tmp_path / "run"
    process = start("train", "-c", toy.config, "-o", run)
    wait_for(lambda: any(run.glob(".prepared.partial-*/*")), process)
    press_ctrl_c(process)
    stopped = finish(process)
    assert stopped.code == 130
    assert stopped.err.splitlines()[-1] == "headwise: interrupted"
    assert sorted(path.name for path in run.iterdir()) == [".lock", ".prepared.lock"]


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_in_a_row_change_nothing(kills: int, toy: Toy, tmp_path: Path, program: Call) -> None:
    draw = random.Random(kills)
    steps = 30 + 20 * kills
    command = ("train", "-c", toy.config, *OFTEN, "training.checkpoint_every=1", "--max-steps", steps, "-o")
    program(*command, tmp_path / "undisturbed").ok()
    run, in_a_save = tmp_path / "run", 0
    for kill in range(kills):
        process, before = start(*command, run), saved_step(run)
        wait_for(lambda before=before: saved_step(run) > before, process)
        if kill % 2:  # at any time
            time.sleep(draw.uniform(0, 0.2))
        else:  # while a checkpoint is being written
            wait_for(lambda: any((run / "checkpoints").glob(".step-*")), process)
        process.kill()
        finish(process)
        in_a_save += any((run / "checkpoints").glob(".step-*"))
        assert before < saved_step(run) < steps, "the run was not killed on its way"
    assert in_a_save or kills < 10  # a kill that aims at a save may come too late
    program(*command, run).ok()
    assert [record["step"] for record in metrics(run, "train")] == list(range(1, steps + 1))
    assert result(run) == result(tmp_path / "undisturbed")
    assert not list(run.rglob("*.partial-*"))


def test_a_kill_after_the_last_step_leaves_the_end_to_the_next_start(
    toy: Toy, undisturbed: Path, tmp_path: Path, program: Call
) -> None:
    run = tmp_path / "run"
    command = ("train", "-c", toy.config, *OFTEN, "--max-steps", STEPS, "-o", run)
    process = start(*command)
    wait_for(lambda: saved_step(run) == STEPS, process)
    process.kill()
    finish(process)
    ended = program(*command).ok()
    assert "already trained" not in ended.err
    assert result(run) == result(undisturbed)


def test_a_trained_run_is_left_alone(toy: Toy, undisturbed: Path, program: Call) -> None:
    before = snapshot(undisturbed)
    again = program("train", "-c", toy.config, *OFTEN, "--max-steps", STEPS, "-o", undisturbed).ok()
    assert f"already trained (reached {STEPS} steps)" in again.err
    assert snapshot(undisturbed) == before


@pytest.mark.parametrize("loss", ["the prepared text", "the newest checkpoint", "the records", "all names but one"])
def test_what_can_be_made_again_is(loss: str, toy: Toy, undisturbed: Path, tmp_path: Path, program: Call) -> None:
    run = Path(shutil.copytree(undisturbed, tmp_path / "run"))
    (run / "latest").write_text(f"step-{STEPS - 10:08d}\n")
    expected = result(undisturbed)
    if loss == "the prepared text":
        shutil.rmtree(run / "prepared")
    elif loss == "the newest checkpoint":
        shutil.rmtree(run / "checkpoints" / f"step-{STEPS:08d}")
    elif loss == "the records":
        (run / "metrics.jsonl").unlink()
        expected["metrics"] = [record for record in expected["metrics"] if record["step"] > STEPS - 10]
    else:
        for name in ("best", "spm.model", "model.safetensors"):  # and curves.png, which no test draws
            (run / name).unlink()
    program("train", "-c", toy.config, *OFTEN, "--max-steps", STEPS, "-o", run).ok()
    assert result(run) == expected


def test_a_run_goes_on_by_its_name_alone(toy: Toy, undisturbed: Path, tmp_path: Path, program: Call) -> None:
    run = tmp_path / "run"
    program("train", "-c", toy.config, *OFTEN, "--max-steps=20", "-o", run).ok()
    again = program("train", "-o", run, "--max-steps", STEPS)
    assert f"{run}: going on with its own configuration" in again.err
    assert again.code == 0
    assert (run / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()
    program("train", "-o", run, "--restart", "--max-steps=3").ok()
    assert (saved_step(run), len(metrics(run, "train"))) == (3, 3)


def test_two_processes_do_not_train_in_one_folder(toy: Toy, tmp_path: Path, program: Call) -> None:
    run = tmp_path / "run"
    process = start("train", "-c", toy.config, "batch.accumulate=120", "-o", run)
    wait_for((run / "config.yaml").exists, process)
    error = program("train", "-c", toy.config, "batch.accumulate=120", "-o", run).error
    assert error == f"{run}: is being written by another process"
    process.kill()
    finish(process)
    program("train", "-c", toy.config, "batch.accumulate=120", "--max-steps=1", "-o", run).ok()

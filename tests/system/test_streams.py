"""Every command with standard input, output or error closed, full, or without a reader."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forked import Popen
from program import Outcome, environment, finish, headwise, saved_step, start, wait_for, wait_for_steps
from toy import Toy

FULL = "standard output: can't be written because the disk is full"
CLOSED = "standard output: can't be written because it is closed"


EVERY_KIND_OF_HELP = [[], ["translate"], ["data", "get"]]


def in_shell(redirection: str, *arguments: object) -> Outcome:
    """Run `headwise` in a shell with redirected streams."""
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {redirection}', "bash", *program(*arguments)],
        env=environment(PYTHONUNBUFFERED=""),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def full(*arguments: object) -> Outcome:
    """Run `headwise` with a file on a full disk as standard output."""
    return writing_to(os.open("/dev/full", os.O_WRONLY), *arguments)


def unread(*arguments: object) -> Outcome:
    """Run `headwise` with a pipe as standard output whose reading end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing_to(writing, *arguments)


def writing_to(stdout: int, *arguments: object) -> Outcome:
    process = Popen(program(*arguments), env=environment(), stdout=stdout, stderr=subprocess.PIPE, text=True)
    os.close(stdout)
    _, err = process.communicate()
    return Outcome(process.returncode, "", err)


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "headwise", *map(str, arguments)]


@pytest.mark.parametrize("command", EVERY_KIND_OF_HELP, ids=" ".join)
def test_help_that_can_not_be_written(command: list[str]) -> None:
    outcome = full(*command, "--help")
    assert outcome.error == FULL
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("command", EVERY_KIND_OF_HELP, ids=" ".join)
def test_help_that_nobody_reads(command: list[str]) -> None:
    assert unread(*command, "--help") == Outcome(0, "", "")


PRINTING: dict[str, Callable[[Path, Toy], list[object]]] = {
    "--version": lambda run, toy: ["--version"],
    "data list": lambda run, toy: ["data", "list"],
    "data list --json": lambda run, toy: ["data", "list", "--json"],
    "reproduce list": lambda run, toy: ["reproduce", "list"],
    "translate": lambda run, toy: ["translate", run, toy.source],
    "evaluate --per-line": lambda run, toy: [
        *("evaluate", run, "--per-line", "--source", toy.source, "--reference", toy.target)
    ],
    "explain": lambda run, toy: ["explain", run, "--text", "ba be di"],
    "train --json": lambda run, toy: ["train", "-o", run, "--json"],
}


@pytest.mark.parametrize("arguments", PRINTING.values(), ids=PRINTING.keys())
def test_results_that_can_not_be_written(arguments: Callable[[Path, Toy], list[object]], run: Path, toy: Toy) -> None:
    assert full(*arguments(run, toy)).error == FULL


@pytest.mark.parametrize("name", ["--version", "data list", "translate"])
def test_results_that_nobody_can_read(name: str, run: Path, toy: Toy) -> None:
    arguments = PRINTING[name](run, toy)
    assert in_shell(">&-", *arguments).error == CLOSED
    outcome = unread(*arguments)
    assert (outcome.code, outcome.out) == (0, "")
    assert "rror" not in outcome.err


def test_input_that_is_closed(run: Path) -> None:
    assert in_shell("<&-", "translate", run).error == "standard input: can't be read (Bad file descriptor)"


@pytest.fixture(scope="module")
def translated(trained: Path, toy: Toy) -> str:
    """What a translation prints with all streams open."""
    return headwise("translate", trained, toy.source).out


def test_unused_standard_input_may_be_closed(translated: str, run: Path, toy: Toy) -> None:
    closed = in_shell("<&-", "translate", run, toy.source)
    assert (closed.code, closed.out) == (0, translated)


@pytest.mark.slow
def test_files_do_not_take_the_place_of_closed_streams(translated: str, run: Path, toy: Toy, tmp_path: Path) -> None:
    """A file opened while descriptor 1 is closed would become descriptor 1 and receive the printed output."""
    outcome = in_shell("<&- >&- 2>&-", "translate", run, toy.source, "-o", tmp_path / "out")
    assert outcome.code == 0
    assert (tmp_path / "out").read_text() == translated
    new = tmp_path / "new"
    arguments = ("train", "-c", toy.config, "--max-steps=2", "--json", "-o", new)
    assert in_shell("<&- >&- 2>&-", *arguments).code == 2  # because there is no output for the JSON
    assert saved_step(new) == 2


@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=pytest.mark.slow)])
def test_messages_never_mix_with_the_results(
    redirection: str, translated: str, run: Path, toy: Toy, tmp_path: Path
) -> None:
    assert in_shell(redirection, "translate", tmp_path / "nowhere", toy.source) == Outcome(2, "", "")
    assert in_shell(redirection, "translate", run, toy.source) == Outcome(0, translated, "")


def _train_on_terminal(toy: Toy, run: Path, **options: Any) -> tuple[subprocess.Popen[bytes], int]:
    """Start a training run with its messages on a pseudo-terminal, and return the process and the other end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        program("train", "-c", toy.config, "--max-steps=60", "training.checkpoint_every=1", "-o", run),
        env=environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        **options,
    )
    os.close(theirs)
    return process, ours


@pytest.mark.slow
def test_messages_come_again_when_they_can_be_written(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom headwise.cli.streams import say, standard_streams\n"
        "with standard_streams():\n for line in sys.stdin: say(line.strip()); print(flush=True)"
    )
    os.mkfifo(tmp_path / "messages")
    reader = os.open(tmp_path / "messages", os.O_RDONLY | os.O_NONBLOCK)
    with (
        open(tmp_path / "messages", "w") as messages,
        Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
            env=environment(),
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        os.close(reader)  # as on a full disk, writing fails from now on
        print("lost", file=process.stdin, flush=True)
        process.stdout.readline()
        reader = os.open(tmp_path / "messages", os.O_RDONLY | os.O_NONBLOCK)
        print("written", file=process.stdin, flush=True)
        process.stdout.readline()
        assert os.read(reader, 100) == b"headwise: written\n"
        os.close(reader)
        process.stdin.close()


def test_training_continues_without_its_terminal(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process, ours = _train_on_terminal(toy, run, start_new_session=True)
    wait_for(lambda: saved_step(run) > 2, process)
    os.close(ours)  # it isn't the controlling terminal, so no signal is sent
    assert process.wait() == 0
    assert saved_step(run) == 60


def test_a_hangup_saves(toy: Toy, tmp_path: Path) -> None:
    """SIGHUP may come twice, and after another signal."""
    run = tmp_path / "run"
    process = start("train", "-c", toy.config, "--max-steps=100000", "training.checkpoint_every=1000", "-o", run)
    wait_for_steps(run, process)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
        process.send_signal(number)
    outcome = finish(process)
    assert outcome.code == 130
    assert 3 <= saved_step(run) < 1000


def test_training_continues_under_nohup(toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = subprocess.Popen(
        [
            "nohup",
            *program("train", "-c", toy.config, "--max-steps=40", "training.checkpoint_every=1", "-o", run),
        ],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: saved_step(run) > 2, process)
    process.send_signal(signal.SIGHUP)
    assert finish(process).code == 0
    assert saved_step(run) == 40

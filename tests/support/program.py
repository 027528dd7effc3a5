"""Helpers that run the `headwise` program, in a separate process or in this one, and inspect its run directories."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from forked import Popen
from headwise.cli.main import run as run_program

_SECONDS = 600  # timeout, longer than any command in the tests takes on a busy machine


@dataclass(frozen=True)
class Outcome:
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The error message of a user error; asserts exit code 2, one message in the last line, and no traceback."""
        assert self.code == 2, f"expected exit code 2, found {self.code}\n{self.err}"
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if line.startswith("headwise: error: ")]
        assert lines == self.err.splitlines()[-1:], self.err
        return lines[0].removeprefix("headwise: error: ")

    def ok(self) -> Outcome:
        """The same outcome; asserts that the command succeeded."""
        assert self.code == 0, self.err
        return self

    @property
    def json(self) -> Any:
        """The JSON that a command which succeeded printed."""
        return json.loads(self.ok().out)

    @property
    def records(self) -> list[Any]:
        """The lines of JSON that a command which succeeded printed."""
        return [json.loads(line) for line in self.ok().out.splitlines()]


Call = Callable[..., Outcome]  # type of the fixture `program`


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that uses one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def shell_environment() -> dict[str, str]:
    """Return the environment of a shell in which `headwise` is the program of these tests."""
    return environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def start(*arguments: object, **more: str) -> subprocess.Popen[str]:
    """Start `headwise` in a new process group, as a terminal does; with other variables, in a fresh process."""
    return (subprocess.Popen if more else Popen)(
        [sys.executable, "-m", "headwise", *map(str, arguments)],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """Restore the default handler of SIGINT, which a shell ignores in background processes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Interrupt a process and all its children, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait until a process ends; returns its outcome."""
    out, err = process.communicate(timeout=_SECONDS)
    return Outcome(process.returncode, out, err)


def headwise(*arguments: object, **more: str) -> Outcome:
    """Run `headwise` in a separate process."""
    return finish(start(*arguments, **more))


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> Outcome:
    """Run `headwise` in this process, which has already imported torch."""
    capsys.readouterr()
    assert isinstance(sys.stderr, io.TextIOWrapper)
    sys.stderr.reconfigure(errors="backslashreplace")  # as Python opens it
    code = run_program([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return Outcome(code, captured.out, captured.err)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until `condition` holds; fails where the process ends before."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert process.poll() is None, f"the process ended too early:\n{finish(process).err}"
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)


def wait_for_steps(run: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a training has recorded three steps; fails where it ends before."""
    wait_for(lambda: (run / "metrics.jsonl").exists() and len(metrics(run, "train")) > 2, process)


def assert_stopped(outcome: Outcome, run: Path, steps: int, *, launcher: bool = False) -> None:
    """Assert that training was stopped after at least three and fewer than `steps` steps, and saved the last one.

    Under a `launcher`, torchrun, the exit code and the last lines are the launcher's.
    """
    stopped = f"stopped after step {saved_step(run)}; saved. Run the same command again to go on."
    if launcher:
        assert outcome.code != 0
        assert stopped in outcome.err.splitlines()
    else:
        assert outcome.code == 130
        assert outcome.err.splitlines()[-2:] == [stopped, "headwise: interrupted"]
    assert 3 <= saved_step(run) < steps


def assert_stopped_at_once(outcome: Outcome) -> None:
    """Assert that training was stopped in the middle of a step."""
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == "headwise: interrupted"
    assert "stopped after" not in outcome.err


def assert_same_training(ours: Path, expected: Path, kind: str | None = None) -> None:
    """Assert that two runs have the same losses and, in their last checkpoints, parameters, except for rounding.

    Losses are those of records of a `kind`, or of all.
    """
    losses = [[record["loss"] for record in metrics(run, kind)] for run in (ours, expected)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    parameters, expected_parameters = (load_file(latest(run) / "model.safetensors") for run in (ours, expected))
    assert parameters.keys() == expected_parameters.keys()
    for name, tensor in parameters.items():
        np.testing.assert_allclose(tensor, expected_parameters[name], rtol=1e-4, atol=1e-6)


def metrics(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the metrics records of a run, without speed and time, which vary between runs."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        record.pop("target_tokens_per_second", None)
        record.pop("seconds", None)
    return [record for record in records if kind in (None, record["kind"])]


def saved_step(run: Path) -> int:
    """Return the step of the latest checkpoint, from which a run resumes; 0 without a checkpoint."""
    latest = run / "latest"
    return int(latest.read_text().removeprefix("step-")) if latest.exists() else 0


def latest(run: Path) -> Path:
    """Return the folder of the latest checkpoint."""
    return run / "checkpoints" / (run / "latest").read_text().strip()


def assert_resumes(program: Call, folder: Path, *command: object, at: int, steps: int | None = None) -> Path:
    """Assert that a training that was stopped at a step and resumed equals one in one go; return this one.

    The number of `steps` of both is that of the command if it isn't given.
    """
    whole, parts = folder / "whole", folder / "parts"
    command = (*command, *([f"--max-steps={steps}"] if steps else []), "-o")
    program(*command, whole).ok()
    program(*command, parts, f"--max-steps={at}").ok()
    assert saved_step(parts) == at
    assert "resuming from" in program(*command, parts).ok().err
    assert_same_result(parts, whole, at)
    return whole


def assert_same_result(parts: Path, whole: Path, at: int) -> None:
    """Assert that a run that was stopped at a step and resumed has the results of one in one go.

    The end of its first part was validated, too.
    """
    ours, expected = result(parts), result(whole)
    known = {(record["kind"], record["step"]) for record in expected["metrics"]}
    ours["metrics"] = [each for each in ours["metrics"] if each["step"] != at or (each["kind"], at) in known]
    assert ours == expected


def result(run: Path) -> dict[str, Any]:
    """Return all results of training: parameters, optimizer and random states, data positions, scores, records."""
    checkpoint = latest(run)
    state = json.loads((checkpoint / "state.json").read_text())
    for name in ("seconds", "timing"):  # different in every new run, as the next two
        del state["progress"][name]
    del state["sha256"], state["start"]
    kept = ("spm.model", "characters.json", "images.json")
    (vocabulary,) = [run / name for name in kept if (run / name).exists()]
    files = [run / "model.safetensors", run / "best", vocabulary, *checkpoint.glob("*.safetensors")]
    assert len(files) == 6
    return {file.name: file.read_bytes() for file in files} | {
        "averaged": sorted(path.name for path in (run / "checkpoints").iterdir()),
        "state": state,
        "metrics": metrics(run),
    }


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, to detect changes."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

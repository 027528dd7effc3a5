"""A Ray cluster of several processes on this machine: the same bytes as without it, also where workers are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from program import finish, headwise, snapshot, start, wait_for
from toy import toy_pairs, write_toy
from translator_run import ENGLISH, make_run

pytest.importorskip("ray", reason="ray isn't installed (the extra ray)")
pytestmark = pytest.mark.cluster
ALONE = {"RAY_ADDRESS": ""}


def workers(name: str) -> list[int]:
    """Return the processes of this user's Ray actors with this name."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 1) for line in listed.splitlines()[1:]]
    return [int(pid) for pid, command in rows if command.startswith(f"ray::{name}")]


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_workers_change_nothing(kills: int, tmp_path: Path) -> None:
    run, draw = make_run(tmp_path / "run"), random.Random(kills)
    source, alone, out = tmp_path / "text.en", tmp_path / "alone.de.gz", tmp_path / "out.de.gz"
    source.write_text("".join(f"{' '.join(draw.choices(ENGLISH, k=1))}\n" for _ in range(400 + 100 * kills)))
    command = ("translate", run, source, "--chunk", 8, "-s", "max_length=30")
    headwise(*command, "-o", alone).ok()
    process = start(*command, "-o", out, "--engine", "ray", **ALONE)
    progress = out.with_name("out.de.gz.progress")
    done = 0
    wait_for(lambda: progress.exists() and '"lines": 8,' in progress.read_text(), process)
    while done < kills and process.poll() is None:
        if found := workers("Translating"):
            os.kill(draw.choice(found), signal.SIGKILL)
            done += 1
        time.sleep(draw.uniform(0, 1))
    outcome = finish(process).ok()
    assert done
    assert "Ray worker" in outcome.err
    assert out.read_bytes() == alone.read_bytes()


def test_a_killed_job_resumes_without_the_cluster(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    source, alone, out = tmp_path / "text.en", tmp_path / "alone.de", tmp_path / "out.de"
    source.write_text("".join(f"{line}\n" for line in ENGLISH) * 60)
    command = ("translate", run, source, "--chunk", 8, "-o")
    process = start(*command, out, "--engine", "ray", **ALONE)
    progress = out.with_name("out.de.progress")
    wait_for(lambda: progress.exists() and '"lines": 0' not in progress.read_text(), process)
    process.kill()
    finish(process)
    headwise(*command, out).ok()
    headwise(*command, alone).ok()
    assert out.read_bytes() == alone.read_bytes()


def test_a_corpus_is_prepared_into_the_same_bytes(tmp_path: Path) -> None:
    toy = write_toy(tmp_path, toy_pairs(300, seed=5))
    command = ("data", "prepare", "--source", toy.source, "--target", toy.target, "--near", "--subwords", 48)
    command = (*command, "--shard-pairs", 64, "--dev-pairs", 10, "-o")
    headwise(*command, tmp_path / "alone").ok()
    process = start(*command, tmp_path / "ray", "--engine", "ray", **ALONE)
    wait_for(lambda: len(list(tmp_path.glob("ray/work/clean-*.json"))) > 1, process)
    process.kill()
    finish(process)
    headwise(*command, tmp_path / "ray", "--engine", "ray", **ALONE).ok()
    contents = [
        {name.removeprefix(str(folder)): data for name, data in snapshot(folder).items()}
        for folder in (tmp_path / "alone", tmp_path / "ray")
    ]
    assert contents[0] == contents[1]

"""Kills at random moments: what training, translation and preparation write is the same as without a kill, to the byte.

    python benchmarks/faults.py --kills 20 --seed 1 --cases rank-ddp job translate prepare -o build/faults

Every case runs undisturbed first. Then it runs again and again into new folders, until there were so many kills; each
kill (SIGKILL) strikes after a time that is drawn uniformly from 0 to half of the undisturbed run's duration, counted
from the start or from the kill before. So kills strike during imports, while processes connect, in steps and in writes.
Where the command ends, the same command is run again; torchrun and Ray start a killed process again themselves. What is
compared: of a training, parameters, moments, random states, data positions, and the records of all steps but their
times; of a translation and a preparation, all files.

A case that doesn't end within `--limit` seconds after a kill has hung, and fails.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headwise.processes import child_environment, python_command
from headwise.tasks.corpus.runs import RAY

_HEADWISE = python_command("-m", "headwise")
_TORCHRUN = python_command(
    *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
    *("--max-restarts", "1000", "-m", "headwise"),
)
_POLL = 0.02  # seconds
_MODEL = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=16", "model.d_ff=32", "model.heads=2"),
    *("subwords.size=120", "subwords.dropout=0.1", "batch.tokens=400", "batch.accumulate=2", "schedule.warmup=20"),
    *("training.checkpoint_every=2", "training.validate_every=1000", "training.average_last=2"),
    *("training.log_every=1", "training.threads=1", "training.products=torch", "training.precision=float32"),
    *("training.device=cpu", "data.dev_pairs=10"),
)  # fmt: skip

# What is compared of a folder or file that a case writes.
Content = Mapping[str, object]


@dataclass(frozen=True)
class Case:
    """A command, which of its processes are killed, and what is compared.

    Attributes:
        command: the command without its output.
        content: reads what the output has.
        victims: returns the processes to draw from, of a running command's process.
        all_at_once: whether the command and all its processes are killed together.
    """

    command: Sequence[str]
    content: Callable[[Path], Content]
    victims: Callable[[int], list[int]]
    all_at_once: bool = False


@dataclass
class Outcome:
    """What happened in a case."""

    kills: int = 0
    rounds: int = 0
    starts: int = 0
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0
    undisturbed: float = 0.0


# Processes


def _processes() -> list[tuple[int, int, str]]:
    """Return the identifiers, the parents and the command lines of all processes."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [(int(row[0]), int(row[1]), row[2] if len(row) > 2 else "") for row in rows]


def _descendants(pid: int) -> list[int]:
    """Return a process and all that it started, directly or not."""
    processes, found = _processes(), [pid]
    for known in found:
        found += [child for child, parent, _ in processes if parent == known]
    return found


def _itself(pid: int) -> list[int]:
    return [pid]


def _children(pid: int) -> list[int]:
    return [child for child, parent, command in _processes() if parent == pid and "headwise" in command]


def _ray_workers(name: str) -> Callable[[int], list[int]]:
    """Return a function that finds the Ray processes of this command that run the actor or function `name`."""

    def find(pid: int) -> list[int]:
        ours = set(_descendants(pid))
        return [p for p, _, command in _processes() if p in ours and command.startswith(f"ray::{name}")]

    return find


# What is compared


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def training(run: Path) -> Content:
    """Return what a finished training has written, without times."""
    checkpoint = run / "checkpoints" / (run / "latest").read_text().strip()
    state = json.loads((checkpoint / "state.json").read_text())
    del state["progress"]["seconds"], state["sha256"], state["start"]
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        record.pop("target_tokens_per_second", None)
        record.pop("seconds", None)
    files = [run / "model.safetensors", *checkpoint.glob("*.safetensors")]
    return {file.name: _digest(file.read_bytes()) for file in files} | {"state": state, "records": records}


def files(out: Path) -> Content:
    """Return the digest of a file, or of each file of a folder, and of what stands beside it, as a manifest does."""
    paths = [path for near in out.parent.glob(f"{out.name}*") for path in [near, *near.rglob("*")]]
    return {str(path.relative_to(out.parent)): _digest(path.read_bytes()) for path in paths if path.is_file()}


# Cases


def make_cases(folder: Path, limit: float) -> dict[str, Case]:
    """Generate the corpora, and return the cases; the translating run is that of an undisturbed training."""
    corpus = folder / "corpus"
    if not (corpus / "train.en").exists():
        _run(
            [
                *_HEADWISE,
                "data",
                "generate",
                "miniature",
                "--train",
                "600",
                "--test",
                "600",
                "-o",
                str(corpus),
            ],
            limit,
        )
    sides = ("--source", str(corpus / "train.en"), "--target", str(corpus / "train.de"))
    run = folder / "translator"
    train = ("train", *sides, *_MODEL, "--max-steps", "24")
    if not (run / "model.safetensors").exists():
        _run([*_HEADWISE, *train, "training.processes=1", "--max-steps", "60", "-o", str(run)], limit)
    translate = (
        "translate",
        str(run),
        str(corpus / "test.en"),
        "--chunk",
        "8",
        "--beam",
        "2",
        "--max-length",
        "20",
    )
    prepare = (
        *(
            "data",
            "prepare",
            *sides,
            "--near",
            "--subwords",
            "120",
            "--shard-pairs",
            "24",
            "--dev-pairs",
            "10",
        ),
        *("--workers", "2"),
    )
    ray = ("--engine", RAY)
    return {
        "rank-ddp": Case((*_TORCHRUN, *train, "training.parallel=ddp"), training, _children),
        "rank-fsdp": Case((*_TORCHRUN, *train, "training.parallel=fsdp"), training, _children),
        "job-torchrun": Case((*_TORCHRUN, *train), training, _descendants, all_at_once=True),
        "job": Case((*_HEADWISE, *train, "training.processes=2"), training, _itself),
        "worker": Case((*_HEADWISE, *train, "training.processes=2"), training, _children),
        "translate": Case((*_HEADWISE, *translate), files, _itself),
        "translate-ray": Case((*_HEADWISE, *translate, *ray), files, _ray_workers("Translating")),
        "prepare": Case((*_HEADWISE, *prepare), files, _children),
        "prepare-job": Case((*_HEADWISE, *prepare), files, _itself),
        "prepare-ray": Case((*_HEADWISE, *prepare, *ray), files, _ray_workers("")),
    }  # fmt: skip


def _run(command: Sequence[str], limit: float) -> None:
    subprocess.run(command, env=_environment(), check=True, capture_output=True, timeout=limit)


def _environment() -> dict[str, str]:
    return {**child_environment(), "OMP_NUM_THREADS": "1", "RAY_ADDRESS": ""}


# Kills


class Failed(Exception):
    """A command that doesn't end, or that fails though nothing of it was killed."""


def disturb(
    case: Case, out: Path, draw: random.Random, kills: int, longest: float, limit: float, log: Path
) -> tuple[int, int]:
    """Run a case until it is finished, with at most `kills` kills; returns the numbers of kills and of starts.

    Raises `Failed` if it doesn't end within `limit` seconds after the last kill, or fails without one.
    """
    done = starts = 0
    while True:
        starts += 1
        before = done
        with open(log, "ab") as errors:
            process = subprocess.Popen(
                [*case.command, "-o", str(out)],
                env=_environment(),
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        since = time.monotonic()
        moment = since + draw.uniform(0, longest)
        while process.poll() is None:
            now = time.monotonic()
            if done < kills and now >= moment and (found := case.victims(process.pid)):
                for pid in found if case.all_at_once else [draw.choice(found)]:
                    _kill(pid)
                done, since = done + 1, now
                moment = now + draw.uniform(0, longest)
            if now - since > limit:
                tree = [row for row in _processes() if row[0] in _descendants(process.pid)]
                for pid in _descendants(process.pid):
                    _kill(pid)
                raise Failed(f"{out} after {done} kills: hung: {tree}")
            time.sleep(_POLL)
        if process.returncode == 0:
            return done, starts
        if done == before:
            raise Failed(f"{out} after {done} kills: the command failed by itself; see {log}")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def measure(name: str, case: Case, folder: Path, options: argparse.Namespace) -> Outcome:
    """Run a case undisturbed and then with kills; returns what happened."""
    draw, outcome = random.Random(f"{options.seed} {name}"), Outcome()
    folder.mkdir(parents=True)
    log = folder / "log"
    began = time.monotonic()
    disturb(case, folder / "undisturbed", draw, 0, 0, options.limit, log)
    outcome.undisturbed = time.monotonic() - began
    expected = case.content(folder / "undisturbed")
    began = time.monotonic()
    while outcome.kills < options.kills:
        outcome.rounds += 1
        out = folder / f"disturbed-{outcome.rounds:03}"
        left = options.kills - outcome.kills
        try:
            kills, starts = disturb(case, out, draw, left, outcome.undisturbed / 2, options.limit, log)
        except Failed as failed:
            outcome.differences.append(str(failed))
            break
        outcome.kills += kills
        outcome.starts += starts
        found = case.content(out)
        # A folder's name is part of what is compared, as files beside it are.
        found = {key.replace(out.name, "undisturbed"): value for key, value in found.items()}
        outcome.differences += [
            f"{out}: {key}"
            for key in sorted(found.keys() | expected.keys())
            if found.get(key) != expected.get(key)
        ]
    outcome.seconds = time.monotonic() - began
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--out", type=Path, required=True, help="a new folder for everything that is written"
    )
    parser.add_argument("--cases", nargs="*", default=[], help="all by default")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cases = make_cases(options.out.resolve(), options.limit)
    if unknown := set(options.cases) - cases.keys():
        parser.error(f"--cases: expected some of {', '.join(cases)}, found {', '.join(sorted(unknown))}")
    print(
        "| case | kills | runs | starts of the command | undisturbed, s | all, s | same bytes |", flush=True
    )
    print("|---|--:|--:|--:|--:|--:|---|", flush=True)
    failed = False
    for name in options.cases or cases:
        outcome = measure(name, cases[name], options.out.resolve() / name, options)
        figures = f"{outcome.kills} | {outcome.rounds} | {outcome.starts}"
        verdict = "no" if outcome.differences else "yes"
        print(
            f"| {name} | {figures} | {outcome.undisturbed:.0f} | {outcome.seconds:.0f} | {verdict} |",
            flush=True,
        )
        for difference in outcome.differences:
            print(difference, file=sys.stderr)
        failed = failed or bool(outcome.differences)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

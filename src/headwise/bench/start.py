"""Start-up time: of the help text, the import and the first translation, each in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict

from headwise.bench.peer import Decoding, Peer, Room
from headwise.bench.peers import OWN
from headwise.bench.pool import Job, Worker
from headwise.bench.report import ReportRow
from headwise.bench.workload import Workload
from headwise.processes import child_environment, python_command

_PROGRAM = {
    "--help": "from headwise.cli.main import run; run(['--help'])",
    "train --help": "from headwise.cli.main import run; run(['train', '--help'])",
    "import": "import headwise",
}


def bench_start(workload: Workload, peers: Sequence[Peer], room: Room, rounds: int) -> list[ReportRow]:
    """Measure the program's start-up, and in every system the time from process start to the first greedy translation.

    Raises `BenchError` if a system fails.
    """
    rows = [
        _row(OWN, name, workload, [_program(code) for _ in range(rounds)]) for name, code in _PROGRAM.items()
    ]
    seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            seconds[peer.name].append(_first_translation(peer, workload, room))
    first = [_row(name, "first translation", workload, times) for name, times in seconds.items()]
    best = min((row.start_seconds for row in first if row.system != OWN), default=None)
    return rows + [_with_ratio(row, best) for row in sorted(first, key=lambda row: row.start_seconds)]


def _program(code: str) -> float:
    began = time.perf_counter()
    subprocess.run(python_command("-c", code), env=child_environment(), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _first_translation(peer: Peer, workload: Workload, room: Room) -> float:
    job = Decoding(batch=1, beam=1, length=None if workload.trained else 25)
    setting = peer.decoding_settings(room, job)[-1]  # one thread: nothing is faster at this size
    request = {"rows": [0], "job": asdict(job)}
    began = time.perf_counter()
    worker = Worker(peer, workload, setting, Job("decode", {}, request, []), room.device)
    seconds = time.perf_counter() - began
    worker.close()
    return seconds


def _row(system: str, task: str, workload: Workload, seconds: Sequence[float]) -> ReportRow:
    return ReportRow(
        system=system,
        task=f"start: {task}",
        model=workload.model,
        batch=1,
        beam=1 if task == "first translation" else None,
        precision="",
        threads=1,
        workers=1,
        tokens_per_second=None,
        ratio_to_best_peer=None,
        start_seconds=statistics.median(seconds),
    )


def _with_ratio(row: ReportRow, best: float | None) -> ReportRow:
    return ReportRow(**{**asdict(row), "ratio_to_best_peer": best and best / row.start_seconds})

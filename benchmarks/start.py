"""Start-up time: of the help text, the import and the first translation, each in fresh processes.

Example: python -m benchmarks start runs/de --against huggingface,ctranslate2
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import command_line
from benchmarks.systems import OWN, options, report
from benchmarks.systems.peer import Decoding, Peer, Room
from benchmarks.systems.pool import Job, Worker, prepare
from benchmarks.systems.report import ReportRow
from benchmarks.systems.workload import Workload, make_workload, read_text, run_workload
from headwise.processes import child_environment, python_command

_PROGRAM = {
    "--help": "from headwise.cli.main import run; run(['--help'])",
    "train --help": "from headwise.cli.main import run; run(['train', '--help'])",
    "import": "import headwise",
}


def main(arguments: Sequence[str]) -> None:
    """Measure the time to the help text, the import and the first translation, in fresh processes."""
    parser = command_line("start", __doc__)
    options.add_run(parser)
    options.add_against(parser)
    parser.add_argument("--model", default="tiny", help="a model size (preset)")
    options.add_rounds(parser, 5, threads=1)
    chosen = parser.parse_args(arguments)
    room, peers = options.make_room("cpu", chosen.threads), options.installed_peers(chosen.against)
    machine = options.show_machine(room, peers)
    with tempfile.TemporaryDirectory() as folder:
        text, path = read_text(None, None), Path(folder)
        if chosen.run:
            workload = run_workload(chosen.run, text, path)
        else:
            workload = make_workload(chosen.model, text, path, vocabulary=10_000)
        able = [p for p, _ in options.able_peers([(peer, []) for peer in peers], workload, "decoding")]
        for peer in able:
            prepare(peer, workload)
        rows = bench_start(workload, able, room, chosen.rounds)
    print(f"\nstart, {workload.model}, median of {chosen.rounds} rounds\n\n{report.start_table(rows)}")
    if chosen.json:
        report.write_json(chosen.json, machine, rows)


def bench_start(workload: Workload, peers: Sequence[Peer], room: Room, rounds: int) -> list[ReportRow]:
    """Measure the program's start-up, and in every system the time from process start to the first greedy translation.

    Raises `BenchError` if a system fails.
    """
    rows = [_row(OWN, name, workload, [_program(code) for _ in range(rounds)]) for name, code in _PROGRAM.items()]
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

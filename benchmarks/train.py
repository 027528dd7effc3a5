"""Training speed: the same model, batches and loss in every system; each round passes over all batches.

Example: python -m benchmarks train --model tiny,base --against huggingface --source train.en --target train.de
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import command_line
from benchmarks.systems import options, report
from benchmarks.systems.options import whole
from benchmarks.systems.peak import matrix_flops
from benchmarks.systems.peer import Peer, Room, Setting
from benchmarks.systems.pool import BenchError, Job, Pool, Say
from benchmarks.systems.report import ReportRow, rows_of
from benchmarks.systems.workload import Workload, make_workload, read_text
from headwise import bounds
from headwise.models.counting import TRAINING, forward_flops

_LOSS_TOLERANCE = 1e-3  # relative, in float32 and without dropout


@dataclass(frozen=True)
class TrainingJob:
    """Size of the benchmark: tokens per side of a batch at most, number of batches, passes over all batches."""

    tokens: int = 4096
    batches: int = 8
    rounds: int = 5


def main(arguments: Sequence[str]) -> None:
    """Measure training: target tokens a second with the same model, batches and loss in every system."""
    parser = command_line("train", __doc__)
    options.add_against(parser)
    options.add_text(parser)
    parser.add_argument("--tokens", type=whole(16, bounds.COUNT), default=4096, help="of a batch, each side")
    parser.add_argument("--batches", type=whole(1, bounds.COUNT), default=8, help="of a round")
    options.add_rounds(parser, 5)
    options.add_device(parser)
    options.add_only(parser)
    chosen = parser.parse_args(arguments)
    room, peers = options.make_room(chosen.device, chosen.threads), options.installed_peers(chosen.against)
    settings = [(peer, options.only_settings(peer, peer.training_settings(room), chosen.only)) for peer in peers]
    models, text = options.parse_models(chosen.model), read_text(chosen.source, chosen.target)
    machine = options.show_machine(room, peers)
    options.tell_all(options.emulated_lines(room))
    peaks = {precision: matrix_flops(room.device, room.threads, precision) for precision in room.precisions}
    rows = []
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            workload = make_workload(model, text, Path(folder), vocabulary=chosen.vocabulary)
            able = options.able_peers(settings, workload, "training")
            job = TrainingJob(chosen.tokens, chosen.batches, chosen.rounds)
            found = bench_training(workload, able, room, job, options.tell, peaks)
        print(
            f"\ntraining, {model}, vocabulary {chosen.vocabulary:,}, {workload.text}, batches of {chosen.tokens:,} "
            f"tokens, median of {chosen.rounds} rounds of {chosen.batches}\n\n{report.table(found)}",
            flush=True,
        )
        rows += found
    if chosen.json:
        report.write_json(chosen.json, machine, rows)


def bench_training(
    workload: Workload,
    peers: Sequence[tuple[Peer, Sequence[Setting]]],
    room: Room,
    job: TrainingJob,
    say: Say,
    peaks: Mapping[str, float],
) -> list[ReportRow]:
    """Measure training in every system with every setting; `peaks` are the device's peak FLOP/s by precision.

    Raises `BenchError` if a system fails, or if its loss of the first batch differs from that of the first system.
    """
    arguments = {"tokens": job.tokens, "batches": job.batches}
    with Pool(workload, room, Job("train", arguments, {"warm": True}, [{}] * job.rounds), say) as pool:
        for peer, settings in peers:
            pool.add(peer, settings)
        _check_losses(pool)
        results = pool.measure()
    rows = rows_of(results, task="train", model=workload.model, batch=job.tokens)
    flops = _flops(workload)
    return [replace(row, share_of_peak=(row.tokens_per_second or 0) * flops / peaks[row.precision]) for row in rows]


def _flops(workload: Workload) -> float:
    """Return the analytic FLOPs of training per target token, the source included."""
    pairs = [(len(s), len(t) + 1) for s, t in zip(workload.sources, workload.targets, strict=True)]
    model = workload.config.model
    passes = sum(forward_flops(model, workload.target_size, n, m) for n, m in pairs)
    return TRAINING * passes / sum(m for _, m in pairs)


def _check_losses(pool: Pool) -> None:
    losses = {f"{w.peer.name} {w.setting}": w.ask({"loss": True})["loss"] for w in pool.workers}
    first, expected = next(iter(losses.items()))
    for name, loss in losses.items():
        if abs(loss - expected) > _LOSS_TOLERANCE * expected:
            raise BenchError(
                f"{name}: expected the loss that {first} has for the first batch, {expected:.4f} nats a token, "
                f"found {loss:.4f}, so they don't train the same model"
            )

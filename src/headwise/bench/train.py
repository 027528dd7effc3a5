"""Benchmark of training speed: the same model, batches and loss in every system; each round passes over all batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwise.bench.peer import Peer, Room, Setting
from headwise.bench.pool import BenchError, Job, Pool, Say
from headwise.bench.report import ReportRow, rows_of
from headwise.bench.workload import Workload
from headwise.models.counting import TRAINING, forward_flops

_LOSS_TOLERANCE = 1e-3  # relative, in float32 and without dropout


@dataclass(frozen=True)
class TrainingJob:
    """Size of the benchmark: tokens per side of a batch at most, number of batches, passes over all batches."""

    tokens: int = 4096
    batches: int = 8
    rounds: int = 5


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
    return [
        replace(row, share_of_peak=(row.tokens_per_second or 0) * flops / peaks[row.precision])
        for row in rows
    ]


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

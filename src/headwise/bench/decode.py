"""Decoding speed: the same weights and sentences in every system, whose outputs are compared with ours in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwise.bench.peer import Decoding, Peer, Room, Setting
from headwise.bench.peers import OWN, find_peer
from headwise.bench.pool import Job, Pool, Say, Worker
from headwise.bench.report import ReportRow, rows_of
from headwise.bench.workload import Workload

_COMPARED = 64  # sentences whose outputs are compared
_UNTRAINED_LENGTH = 25
_WARM_UP = 32  # sentences, or a batch of them


@dataclass(frozen=True)
class DecodingJob:
    """How much is decoded: so many sentences in all, in rounds."""

    decoding: Decoding
    sentences: int = 1280
    rounds: int = 5


def bench_decoding(
    workload: Workload,
    peers: Sequence[tuple[Peer, Sequence[Setting]]],
    room: Room,
    job: DecodingJob,
    say: Say,
) -> list[ReportRow]:
    """Decode in every system under every setting; every round has sentences of its own, the same for all systems.

    Raises `BenchError` where a system fails.
    """
    decoding = asdict(job.decoding)
    rounds = [{"rows": rows, "job": decoding} for rows in _spread(len(workload.sources), job)]
    warm = {"rows": rounds[0]["rows"][: max(_WARM_UP, job.decoding.batch)], "job": decoding}
    with Pool(workload, room, Job("decode", {}, warm, rounds), say) as pool:
        for peer, settings in peers:
            pool.add(peer, settings)
        results = pool.measure()
        agreement = _agreement(pool, job.decoding)
    return rows_of(
        results,
        task="decode",
        model=workload.model,
        batch=job.decoding.batch,
        beam=job.decoding.beam,
        length=job.decoding.length,
        extra={name: {"same_outputs": share} for name, share in agreement.items()},
    )


def _spread(available: int, job: DecodingJob) -> list[list[int]]:
    """Rows of every round, spread evenly over the text; a small text is gone through again and again."""
    size = max(1, job.sentences // job.rounds)
    stride = max(1, available // (size * job.rounds))
    rows = [number * stride % available for number in range(size * job.rounds)]
    return [rows[number :: job.rounds] for number in range(job.rounds)]


def _agreement(pool: Pool, decoding: Decoding) -> dict[str, float]:
    """The share of sentences whose output is what our readable search finds in float32.

    A trained model's outputs are compared at their own lengths, as systems count the end symbol of a forced length
    differently. An untrained model finds no end: there it is greedy search up to the end symbol of a forced length.
    """
    strict = replace(decoding, length=None, strict=True, batch=min(decoding.batch, _COMPARED))
    if not pool.workload.trained:
        strict = replace(strict, beam=1, length=_UNTRAINED_LENGTH)
    count = min(_COMPARED, len(pool.workload.sources))
    order: dict[str, Any] = {"rows": list(range(count)), "job": asdict(strict), "outputs": True}
    judge = Worker(
        find_peer(OWN),
        pool.workload,
        Setting("float32", pool.room.threads),
        replace(pool.job, warm_up={}),
        pool.room.device,
    )
    expected = judge.ask(order)["outputs"]
    judge.close()
    shares = {}
    for worker in pool.workers:
        found = worker.ask(order)["outputs"]
        same = sum(a == b[: strict.length and len(a)] for a, b in zip(expected, found, strict=True))
        shares[f"{worker.peer.name} {worker.setting}"] = same / count
    return shares

"""Decoding speed of systems with the same weights and sentences; outputs are compared with Headwise's in float32."""

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
_UNTRAINED_LENGTH = 25  # forced length in tokens for the comparison of an untrained model's outputs
_WARM_UP = 32  # fewest sentences for warm-up; a batch if that is larger


@dataclass(frozen=True)
class DecodingJob:
    """Amount of decoding: the number of sentences in all rounds together, and the number of rounds."""

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
    """Measure decoding in every system with every setting; each round has its own sentences, the same for all systems.

    Raises `BenchError` if a system fails.
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
    """Return the sentence numbers of every round, spread evenly over the text; a small text is repeated."""
    size = max(1, job.sentences // job.rounds)
    stride = max(1, available // (size * job.rounds))
    sentences = [number * stride % available for number in range(size * job.rounds)]
    return [sentences[number :: job.rounds] for number in range(job.rounds)]


def _agreement(pool: Pool, decoding: Decoding) -> dict[str, float]:
    """Return the share of sentences with the same output as Headwise's reference search in float32, by worker.

    A trained model's outputs are compared without a forced length, because systems count its end symbol differently.
    An untrained model never ends an output, so greedy search with a forced length is compared, up to the end symbol.
    """
    strict = replace(decoding, length=None, strict=True, batch=min(decoding.batch, _COMPARED))
    if not pool.workload.trained:
        strict = replace(strict, beam=1, length=_UNTRAINED_LENGTH)
    count = min(_COMPARED, len(pool.workload.sources))
    request: dict[str, Any] = {"rows": list(range(count)), "job": asdict(strict), "outputs": True}
    reference = Worker(
        find_peer(OWN),
        pool.workload,
        Setting("float32", pool.room.threads),
        replace(pool.job, warm_up={}),
        pool.room.device,
    )
    expected = reference.ask(request)["outputs"]
    reference.close()
    shares = {}
    for worker in pool.workers:
        outputs = worker.ask(request)["outputs"]
        same = sum(a == b[: strict.length and len(a)] for a, b in zip(expected, outputs, strict=True))
        shares[f"{worker.peer.name} {worker.setting}"] = same / count
    return shares

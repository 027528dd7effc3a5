"""Decoding speed of systems with the same weights and sentences; outputs are compared with Headwise's in float32.

Example: python -m benchmarks decode runs/de --against huggingface,ctranslate2 --source test.en --target test.de
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import command_line
from benchmarks.systems import OWN, find_peer, options, report
from benchmarks.systems.options import whole
from benchmarks.systems.own import System
from benchmarks.systems.peer import Decoding, Peer, Room, Setting
from benchmarks.systems.pool import Job, Pool, Say, Worker, prepare
from benchmarks.systems.report import ReportRow, rows_of
from benchmarks.systems.workload import Workload, keep_shortlist, make_workload, read_text, run_workload
from headwise import bounds

_COMPARED = 64  # sentences whose outputs are compared
_UNTRAINED_LENGTH = 25  # forced length in tokens for the comparison of an untrained model's outputs
_WARM_UP = 32  # fewest sentences for warm-up; a batch if that is larger


@dataclass(frozen=True)
class DecodingJob:
    """Amount of decoding: the number of sentences in all rounds together, and the number of rounds."""

    decoding: Decoding
    sentences: int = 1280
    rounds: int = 5


def main(arguments: Sequence[str]) -> None:
    """Measure decoding: tokens and sentences a second, latency, memory, and whether the outputs agree."""
    chosen = _parser().parse_args(arguments)
    room, peers = options.make_room(chosen.device, chosen.threads), options.installed_peers(chosen.against)
    jobs = list(_jobs(chosen.batch, chosen.beam, chosen.length or None))
    models = [None] if chosen.run else options.parse_models(chosen.model)
    text = read_text(chosen.source, chosen.target)
    machine = options.show_machine(room, peers)
    options.tell_all(options.emulated_lines(room))
    rows = []
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            if chosen.run is not None:
                workload = run_workload(chosen.run, text, Path(folder))
            else:
                workload = make_workload(str(model), text, Path(folder), vocabulary=chosen.vocabulary)
            rows += _of_workload(workload, peers, room, chosen, jobs)
    if chosen.json:
        report.write_json(chosen.json, machine, rows)


def _parser() -> ArgumentParser:
    parser = command_line("decode", __doc__)
    options.add_run(parser)
    options.add_against(parser)
    options.add_text(parser)
    parser.add_argument("--batch", default="64,1", help="sentences of a batch, such as 64,1; 1: one at a time")
    parser.add_argument("--beam", default="4", help="beam sizes; with --batch 1 greedy search is measured, too")
    parser.add_argument(
        "--length",
        type=whole(0, bounds.LENGTH),
        default=25,
        help="forced length of every output in tokens; 0: no forced length",
    )
    parser.add_argument("--sentences", type=whole(1, bounds.COUNT), default=1000, help="in all rounds together")
    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="measure Headwise with a shortlist, too: the run's, or one learned from --source and --target",
    )
    options.add_rounds(parser, 5)
    options.add_device(parser)
    options.add_only(parser)
    return parser


def _of_workload(
    workload: Workload, peers: Sequence[Peer], room: Room, chosen: Namespace, jobs: Sequence[Decoding]
) -> list[ReportRow]:
    """Measure one model with every batch and beam size; print the tables and return their rows."""
    able = options.able_peers([(peer, []) for peer in peers], workload, "decoding")
    for peer, _ in able:
        prepare(peer, workload)
    if chosen.shortlist:
        options.tell(f"shortlist: {keep_shortlist(workload, chosen.run)}")
    rows = []
    for job in jobs:
        candidates = [(peer, peer.decoding_settings(room, job)) for peer, _ in able]
        if chosen.shortlist:
            candidates += [(own, own.shortlisted(s)) for own, s in candidates if isinstance(own, System)]
        settings = [(peer, options.only_settings(peer, s, chosen.only)) for peer, s in candidates]
        work = DecodingJob(job, chosen.sentences, chosen.rounds)
        results = bench_decoding(workload, settings, room, work, options.tell)
        how = f"{chosen.length} tokens each" if chosen.length else "lengths as they come"
        many = f"batches of {job.batch}" if job.batch > 1 else "one sentence at a time"
        print(
            f"\ndecoding, {workload.model}, {workload.text}, {many}, beam {job.beam}, {how}, "
            f"median of {chosen.rounds} rounds, {chosen.sentences:,} sentences\n\n{report.table(results)}",
            flush=True,
        )
        rows += results
    return rows


def _jobs(batches: str, beams: str, length: int | None) -> Iterator[Decoding]:
    """Yield the combinations of batch and beam size; with batch size 1 greedy search is added."""
    for batch in options.parse_numbers("--batch", batches, bounds.COUNT):
        beam_sizes = options.parse_numbers("--beam", beams, bounds.BEAM)
        for beam in sorted({1, *beam_sizes}) if batch == 1 else beam_sizes:
            yield Decoding(batch, beam, length)


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

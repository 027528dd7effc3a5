"""Data-parallel training of a benchmarked system: each process computes its share of every batch, the same for all.

The benchmark's worker is rank 0; the others run this module (`python -m benchmarks.systems.training_group`).
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.systems import find_peer
from benchmarks.systems.peer import Peer, Setting, Trainee
from benchmarks.systems.workload import Workload
from headwise.data.plans import plan_batches
from headwise.tasks.batches.examples import padded
from headwise.tasks.batches.pairs import Batch
from headwise.text.tokens.subwords import BOS, EOS, PAD
from headwise.training.parallel.workers import READY, Workers, join

_WORK = "benchmarks.systems.training_group:work"


def training_batches(workload: Workload, tokens: int, count: int, *, seed: int = 1) -> list[Batch]:
    """Return the first `count` batches of an epoch, of at most `tokens` tokens per side; fewer if text is short."""
    lengths = [np.array([len(sentence) for sentence in side]) for side in (workload.sources, workload.targets)]
    plan = plan_batches(lengths[0], lengths[1] + 1, tokens, seed=seed, epoch=0)
    return [_batch(workload, examples.tolist()) for examples in plan[:count]]


def shares(workload: Workload, batches: Sequence[Batch], rank: int, size: int) -> list[Batch]:
    """Return, of each batch, every `size`-th example from example `rank` on."""
    return [_batch(workload, batch.rows[rank::size]) for batch in batches]


def _batch(workload: Workload, examples: list[int]) -> Batch:
    sources = [workload.sources[example] for example in examples]
    targets = [workload.targets[example] for example in examples]
    source = padded(sources)
    return Batch(
        source=source,
        source_mask=source != PAD,
        target_input=padded([[BOS, *ids] for ids in targets]),
        target_output=padded([[*ids, EOS] for ids in targets]),
        rows=examples,
        target_tokens=sum(map(len, targets)) + len(examples),
    )


class TrainingGroup:
    """Rank 0 of a group of training processes, whose number is `workers` of the setting."""

    def __init__(
        self, peer: Peer, workload: Workload, setting: Setting, device: str, tokens: int, batches: int
    ) -> None:
        """Start the other ranks and load the model on each; they stop when this process exits."""
        job = {
            "peer": peer.name,
            "workload": str(workload.folder),
            "setting": asdict(setting),
            "device": device,
            "tokens": tokens,
            "batches": batches,
        }
        resources = ExitStack()
        atexit.register(resources.close)  # the other ranks stop before the connections to them close
        workers = resources.enter_context(Workers(_WORK, job))
        self._world = workers.gather(setting.workers, setting.workers * setting.threads, {})
        whole_batches = training_batches(workload, tokens, batches)
        self._first, self._tokens = whole_batches[0], sum(batch.target_tokens for batch in whole_batches)
        self._trainee = peer.open_training(workload, setting, device, self._world)
        self._batches = shares(workload, whole_batches, self._world.rank, self._world.size)

    def loss(self) -> float:
        """Return the smoothed loss per target token of the first batch, without dropout."""
        return self._trainee.loss(self._first)

    def round(self) -> int:
        """Train on all batches once; return their number of target tokens."""
        self._world.sum(1.0)  # starts the round on the other ranks, which wait in the same reduction
        _train(self._trainee, self._batches)
        return self._tokens

    def memory(self, own: int) -> int:
        """Return the memory of all processes, estimated as that of this one times their number."""
        return own * self._world.size


def _train(trainee: Trainee, batches: Sequence[Batch]) -> None:
    for batch in batches:
        trainee.step(batch)


def _rank(job: dict[str, Any], order: dict[str, Any], peer: Peer) -> None:
    """Train as a rank other than rank 0, until rank 0 stops this process."""
    world = join(order)
    workload, setting = Workload.open(Path(job["workload"])), Setting(**job["setting"])
    trainee = peer.open_training(workload, setting, job["device"], world)
    whole_batches = training_batches(workload, job["tokens"], job["batches"])
    batches = shares(workload, whole_batches, world.rank, world.size)
    while True:
        world.sum(0.0)
        _train(trainee, batches)


def work(received: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Be a worker process (`Workers`)."""
    job = next(received)
    peer = find_peer(job["peer"])
    peer.load()
    yield READY
    _rank(job, next(received), peer)

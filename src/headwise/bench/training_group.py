"""Processes that train one system together, as data-parallel ranks: each computes its share of every batch.

The benchmark's worker is rank 0; the others run this module (`python -m headwise.bench.training_group`).
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.bench.batches import training_batches
from headwise.bench.peer import Peer, Setting, Trainee
from headwise.bench.peers import find_peer
from headwise.bench.workload import Workload
from headwise.training.parallel import World
from headwise.training.workers import Workers, orders, report_ready

if TYPE_CHECKING:
    from headwise.text.batches.pairs import Batch

_MODULE = "headwise.bench.training_group"


class TrainingGroup:
    """Rank 0 and the processes that train with it, one for each of the setting's workers."""

    def __init__(
        self, peer: Peer, workload: Workload, setting: Setting, device: str, tokens: int, batches: int
    ) -> None:
        """Start the other ranks and open the model on each; they end with this process."""
        job = {
            "peer": peer.name,
            "workload": str(workload.folder),
            "setting": asdict(setting),
            "device": device,
            "tokens": tokens,
            "batches": batches,
        }
        ending = ExitStack()
        atexit.register(ending.close)  # the other ranks end before the connections to them do
        workers = ending.enter_context(Workers(_MODULE, job))
        self._world = workers.gather(setting.workers, setting.workers * setting.threads, {})
        whole = training_batches(workload, tokens, batches)
        self._first, self._tokens = whole[0], sum(batch.target_tokens for batch in whole)
        self._trainee = peer.open_training(workload, setting, device, self._world)
        self._batches = _shares(workload, tokens, batches, self._world)

    def loss(self) -> float:
        """Return the smoothed loss per target token of the first batch, without dropout."""
        return self._trainee.loss(self._first)

    def round(self) -> int:
        """Train on all batches once; returns their target tokens."""
        self._world.sum(1.0)  # the other ranks wait for it
        _train(self._trainee, self._batches)
        return self._tokens

    def memory(self, own: int) -> int:
        """Return the memory of all processes, where each has as much as this one."""
        return own * self._world.size


def _shares(workload: Workload, tokens: int, batches: int, world: World) -> list[Batch]:
    """Return a rank's examples of each batch."""
    return training_batches(workload, tokens, batches, rank=world.rank, size=world.size)


def _train(trainee: Trainee, batches: Sequence[Batch]) -> None:
    for batch in batches:
        trainee.step(batch)


def _rank(job: dict[str, Any], order: dict[str, Any], peer: Peer) -> None:
    """Be a rank other than the first one, until that one ends this process."""
    world = World.join_local(order["rank"], order["size"], order["threads"], Path(order["meeting"]))
    workload, setting = Workload.open(Path(job["workload"])), Setting(**job["setting"])
    trainee = peer.open_training(workload, setting, job["device"], world)
    batches = _shares(workload, job["tokens"], job["batches"], world)
    while True:
        world.sum(0.0)
        _train(trainee, batches)


def _main() -> None:
    lines = orders()
    job = next(lines)
    peer = find_peer(job["peer"])
    peer.load()
    report_ready()
    _rank(job, next(lines), peer)


if __name__ == "__main__":
    _main()

"""Interface of a benchmarked system, Headwise or a peer: its settings, a training step, a decoder."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from benchmarks.systems.workload import Workload
    from headwise.tasks.batches.pairs import Batch
    from headwise.training.parallel.world import World


@dataclass(frozen=True)
class Setting:
    """One way to run a system; of several, the benchmark keeps the fastest of each precision."""

    precision: str
    threads: int
    workers: int = 1
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.precision} {self.workers}x{self.threads} {self.detail}".rstrip()


@dataclass(frozen=True)
class Room:
    """Resources of the machine: the device, the total number of threads of a system, and the precisions.

    PyTorch emulates precisions that the device has no instructions for, far slower than float32. Nobody trains or
    decodes with them, so they aren't measured.
    """

    device: str = "cpu"
    threads: int = 1
    # Of PyTorch's matrix products; first the one that `auto` selects.
    precisions: tuple[str, ...] = ("float32",)

    @property
    def process_counts(self) -> list[int]:
        """Numbers of training processes of one thread to try: one for each thread, where there are several."""
        return [self.threads] if self.device == "cpu" and self.threads > 1 else []

    @property
    def thread_counts(self) -> list[int]:
        """Numbers of threads to try: all of them, and one."""
        return sorted({1, self.threads}, reverse=True) if self.device == "cpu" else [self.threads]


@dataclass(frozen=True)
class Decoding:
    """Settings of decoding.

    Attributes:
        batch: sentences of a batch; 1 decodes one sentence at a time.
        beam: beam size; 1 is greedy search.
        length: forced length of every output in tokens, with the end symbol; None: no forced length.
        strict: exclude padding, begin and unknown symbols from outputs, as Headwise always does. It costs some
            systems time and changes nothing with a trained model, so only the comparison of outputs requests it.
    """

    batch: int = 64
    beam: int = 4
    length: int | None = 25
    strict: bool = False


class Trainee(Protocol):
    """A model in training."""

    def loss(self, batch: Batch) -> float:
        """Return the smoothed loss per target token without dropout, in float32."""
        ...

    def step(self, batch: Batch) -> None:
        """Run one training step: forward pass, backward pass and update."""
        ...


# Source ids with the end symbol -> the ids of each best output, without the end symbol, in the same order.
Decoder = Callable[[Sequence[list[int]], Decoding], list[list[int]]]


class Peer(ABC):
    """A benchmarked system; `packages` must be installed, for which there is an extra of the same name."""

    name: str
    packages: tuple[str, ...]

    def absent(self) -> str:
        """Return the reason why the system isn't available, or an empty string."""
        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if not missing:
            return ""
        return f"{self.name}: skipped, {missing[0]} is not installed (pip install 'headwise[{self.name}]')"

    def versions(self) -> dict[str, str]:
        """Return the version of each of its packages."""
        return {package: importlib.metadata.version(package) for package in self.packages}

    def refuses(self, workload: Workload) -> str:
        """Return the reason why the system doesn't support the workload's model, or an empty string."""
        return ""

    def load(self) -> None:
        """Import the libraries, so that their memory can be measured apart from the model's."""
        for package in self.packages:
            importlib.import_module(package)

    def prepare(self, workload: Workload, folder: Path) -> None:  # noqa: B027 - most systems need no files
        """Write the files that its workers need; called once, in a process of its own."""

    @abstractmethod
    def training_settings(self, room: Room) -> list[Setting]:
        """Return the settings to try for training; none if the system can't train."""

    @abstractmethod
    def decoding_settings(self, room: Room, job: Decoding) -> list[Setting]:
        """Return the settings to try for decoding."""

    def open_training(self, workload: Workload, setting: Setting, device: str, world: World) -> Trainee:
        """Return a model for training, with the workload's weights, on one rank of a world."""
        raise NotImplementedError(f"{self.name} doesn't train")

    @abstractmethod
    def open_decoding(self, workload: Workload, setting: Setting, device: str) -> Decoder:
        """Return a decoder with the workload's weights."""

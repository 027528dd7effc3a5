"""What a benchmark asks of a system, ours or a peer: the settings it knows, a training step, a decoder."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwise.bench.workload import Workload
    from headwise.text.batches.pairs import Batch


@dataclass(frozen=True)
class Setting:
    """One way to run a system; the sweep keeps the fastest of each precision."""

    precision: str
    threads: int
    workers: int = 1
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.precision} {self.workers}x{self.threads} {self.detail}".rstrip()


@dataclass(frozen=True)
class Room:
    """What the machine offers: the device, how many threads a system may use in all, and which precisions.

    PyTorch emulates precisions that the device has no instructions for, at a small part of the speed of float32:
    nobody trains or decodes so, and nothing is measured so.
    """

    device: str = "cpu"
    threads: int = 1
    precisions: tuple[str, ...] = ("float32",)  # of PyTorch's products, the one that `auto` takes first

    @property
    def thread_counts(self) -> list[int]:
        """Threads worth trying: all of them, and one."""
        return sorted({1, self.threads}, reverse=True) if self.device == "cpu" else [self.threads]


@dataclass(frozen=True)
class Decoding:
    """How sentences are decoded.

    Attributes:
        batch: sentences that are decoded together; 1 is one sentence at a time.
        beam: hypotheses of a sentence; 1 is greedy.
        length: tokens that every output is forced to have, the end symbol included; None: as they come.
        strict: never let an output hold a padding, begin or unknown symbol, as ours never does. It costs some
            systems time and changes nothing with a trained model, so only the comparison of outputs asks for it.
    """

    batch: int = 64
    beam: int = 4
    length: int | None = 25
    strict: bool = False


class Trainee(Protocol):
    """A model under training."""

    def loss(self, batch: Batch) -> float:
        """Return the smoothed loss per target token without dropout, in float32."""
        ...

    def step(self, batch: Batch) -> None:
        """Make one optimizer step."""
        ...


# Source ids that end with the end symbol -> the best output of each, ids without the end symbol, in the same order.
Decoder = Callable[[Sequence[list[int]], Decoding], list[list[int]]]


class Peer(ABC):
    """One system; `packages` must be installed for it, which the extra of the same name does."""

    name: str
    packages: tuple[str, ...]

    def absent(self) -> str:
        """Say why it can't take part, or return an empty string."""
        missing = [package for package in self.packages if importlib.util.find_spec(package) is None]
        if not missing:
            return ""
        return f"{self.name}: skipped, {missing[0]} is not installed (pip install 'headwise[{self.name}]')"

    def versions(self) -> dict[str, str]:
        """Return the version of every package it is made of."""
        return {package: importlib.metadata.version(package) for package in self.packages}

    def refuses(self, workload: Workload) -> str:
        """Say why it can't have a model of this shape, or return an empty string."""
        return ""

    def load(self) -> None:
        """Import the libraries, so that their memory can be told from the model's."""
        for package in self.packages:
            importlib.import_module(package)

    def prepare(self, workload: Workload, folder: Path) -> None:  # noqa: B027 - most need nothing
        """Write files that its processes will need; called once, in a process of its own."""

    @abstractmethod
    def training_settings(self, room: Room) -> list[Setting]:
        """Return the settings worth trying for training; none where it can't train."""

    @abstractmethod
    def decoding_settings(self, room: Room, job: Decoding) -> list[Setting]:
        """Return the settings worth trying for decoding."""

    def open_training(self, workload: Workload, setting: Setting, device: str) -> Trainee:
        """Make a model that is ready to be trained, with the workload's weights."""
        raise NotImplementedError(f"{self.name} doesn't train")

    @abstractmethod
    def open_decoding(self, workload: Workload, setting: Setting, device: str) -> Decoder:
        """Make a decoder with the workload's weights."""

"""Workers of several systems, asked for rounds in turn, so that a noisy moment hits all of them alike."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

from headwise.bench.peer import Peer, Room, Setting
from headwise.bench.workload import Workload
from headwise.errors import HeadwiseError
from headwise.parsing.json_text import parse_object
from headwise.processes import child_environment, python_command

Say = Callable[[str], None]
_WORKER = "headwise.bench.worker"


class BenchError(HeadwiseError):
    """A system's process failed."""


@dataclass(frozen=True)
class Job:
    """What is measured: a task of the worker's, its arguments, a warm-up, and the rounds, which repeat."""

    task: str
    arguments: dict[str, Any]
    warm_up: dict[str, Any]
    rounds: list[dict[str, Any]]


class Process:
    """A process of ours that answers orders: one JSON line each, on its standard input and output."""

    def __init__(self, module: str, name: str) -> None:
        """Start `module`; `name` is what messages call it."""
        self._name = name
        self._process = subprocess.Popen(
            python_command("-m", module),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send one order and wait for its answer; raises `BenchError` where the process fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            raise BenchError(f"{self._name}: its process ended with code {code}; see its messages above")
        answer = parse_object(line, self._name, error=BenchError, finite=False)
        if "error" in answer:
            raise BenchError(f"{self._name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Worker(Process):
    """A process that holds one system under one setting."""

    def __init__(self, peer: Peer, workload: Workload, setting: Setting, job: Job, device: str) -> None:
        """Start it and wait until it is warm; raises `BenchError` where it fails."""
        super().__init__(_WORKER, f"{peer.name} {setting}")
        self.peer, self.setting = peer, setting
        order = {
            "peer": peer.name,
            "task": job.task,
            "workload": str(workload.folder),
            "setting": asdict(setting),
            "device": device,
            "warm_up": job.warm_up,
            **job.arguments,
        }
        ready = self.ask(order)
        self.libraries: int = ready["libraries"]
        self.start_seconds: float = ready["seconds"]


def prepare(peer: Peer, workload: Workload) -> None:
    """Let a system write the files that its workers need."""
    process = Process(_WORKER, peer.name)
    process.ask({"peer": peer.name, "task": "prepare", "workload": str(workload.folder)})
    process.close()


@dataclass
class Measured:
    """What the rounds of one system under one setting gave."""

    peer: str
    setting: Setting
    libraries: int
    start_seconds: float
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """Highest resident memory, in bytes."""
        return max(each["peak"] for each in self.rounds)

    def rates(self, of: str = "tokens") -> list[float]:
        """Tokens (or sentences) per second in every round."""
        return [each[of] / each["seconds"] for each in self.rounds]


class Pool:
    """The workers of one comparison; a context that ends them all."""

    def __init__(self, workload: Workload, room: Room, job: Job, say: Say) -> None:
        self.workload, self.room, self.job, self._say = workload, room, job, say
        self.workers: list[Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.close()

    def add(self, peer: Peer, settings: Iterable[Setting]) -> None:
        """Try each setting for one round and keep the fastest of each precision; a single one needs no trial."""
        settings = list(settings)
        best: dict[str, tuple[float, Worker]] = {}
        for setting in settings:
            worker = Worker(peer, self.workload, setting, self.job, self.room.device)
            alone = sum(other.precision == setting.precision for other in settings) == 1
            if alone:
                rate = 0.0
            else:
                tried = worker.ask(self.job.rounds[0])
                rate = tried["tokens"] / tried["seconds"]
                self._say(f"  {peer.name} {setting}: {rate:,.0f} tokens/s in a trial round")
            rival = best.get(setting.precision)
            if rival is not None and rival[0] >= rate:
                worker.close()
                continue
            if rival is not None:
                rival[1].close()
            best[setting.precision] = (rate, worker)
        self.workers += [worker for _, worker in best.values()]

    def measure(self) -> list[Measured]:
        """Let every worker compute every round, round by round, beginning with another one each time."""
        results = [Measured(w.peer.name, w.setting, w.libraries, w.start_seconds) for w in self.workers]
        pairs = list(zip(self.workers, results, strict=True))
        for number, order in enumerate(self.job.rounds):
            turn = number % max(len(pairs), 1)
            for worker, result in pairs[turn:] + pairs[:turn]:
                result.rounds.append(worker.ask(order))
        return results

"""Pool of worker processes of several systems; rounds alternate between them, so that noise affects all alike."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

from benchmarks.systems.peer import Peer, Room, Setting
from benchmarks.systems.workload import Workload
from headwise.errors import HeadwiseError
from headwise.parsing import parse_object
from headwise.processes import child_environment, python_command

Say = Callable[[str], None]
_WORKER = "benchmarks.systems.worker"


class BenchError(HeadwiseError):
    """Failure of a system's process."""


@dataclass(frozen=True)
class Job:
    """A measurement: the worker's task, its arguments, the request for warm-up, and the requests for the rounds."""

    task: str
    arguments: dict[str, Any]
    warm_up: dict[str, Any]
    rounds: list[dict[str, Any]]


class Process:
    """Child process that answers requests: one JSON line each, over its standard input and output."""

    def __init__(self, module: str, name: str) -> None:
        """Start `module`; messages call it `name`."""
        self._name = name
        self._process = subprocess.Popen(
            python_command("-m", module),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response; raises `BenchError` if the process fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            raise BenchError(f"{self._name}: its process ended with code {code}; see its messages above")
        response = parse_object(line, self._name, error=BenchError, finite=False)
        if "error" in response:
            raise BenchError(f"{self._name}: {response['error']}")
        return response

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Worker(Process):
    """Process that runs one system with one setting."""

    def __init__(self, peer: Peer, workload: Workload, setting: Setting, job: Job, device: str) -> None:
        """Start the process and wait until it is warmed up; raises `BenchError` if it fails."""
        super().__init__(_WORKER, f"{peer.name} {setting}")
        self.peer, self.setting = peer, setting
        request = {
            "peer": peer.name,
            "task": job.task,
            "workload": str(workload.folder),
            "setting": asdict(setting),
            "device": device,
            "warm_up": job.warm_up,
            **job.arguments,
        }
        response = self.ask(request)
        self.libraries: int = response["libraries"]
        self.start_seconds: float = response["seconds"]


def prepare(peer: Peer, workload: Workload) -> None:
    """Let a system write the files that its workers need (in a process of its own)."""
    process = Process(_WORKER, peer.name)
    process.ask({"peer": peer.name, "task": "prepare", "workload": str(workload.folder)})
    process.close()


@dataclass
class Measured:
    """Results of all rounds of one system with one setting.

    Attributes:
        peer: the system's name.
        libraries: resident memory in bytes before the model was loaded.
        start_seconds: seconds from loading the model to the end of warm-up.
        rounds: the worker's responses.
    """

    peer: str
    setting: Setting
    libraries: int
    start_seconds: float
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """Peak resident memory, in bytes."""
        return max(result["peak"] for result in self.rounds)

    def rates(self, of: str = "tokens") -> list[float]:
        """Return tokens (or sentences) per second in every round."""
        return [result[of] / result["seconds"] for result in self.rounds]


class Pool:
    """The workers of one comparison; as a context manager, it ends them all."""

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
        """Start a worker for each setting and keep the fastest of each precision by a trial round.

        The only setting of a precision needs no trial.
        """
        settings = list(settings)
        best: dict[str, tuple[float, Worker]] = {}
        for setting in settings:
            worker = Worker(peer, self.workload, setting, self.job, self.room.device)
            alone = sum(other.precision == setting.precision for other in settings) == 1
            if alone:
                rate = 0.0
            else:
                trial = worker.ask(self.job.rounds[0])
                rate = trial["tokens"] / trial["seconds"]
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
        """Run every round on every worker; each round starts with another worker."""
        results = [Measured(w.peer.name, w.setting, w.libraries, w.start_seconds) for w in self.workers]
        pairs = list(zip(self.workers, results, strict=True))
        for number, request in enumerate(self.job.rounds):
            first = number % max(len(pairs), 1)
            for worker, result in pairs[first:] + pairs[:first]:
                result.rounds.append(worker.ask(request))
        return results

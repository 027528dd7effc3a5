"""Helpers that start `headwise` under torchrun, and find its processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from forked import Popen
from program import environment


@dataclass(frozen=True)
class Rank:
    """A process that a test signals."""

    pid: int

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def launch(count: int, *options: str) -> list[str]:
    """Return the command of torchrun for `count` processes on this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), *options, "-m"]


def start_ranks(count: int, *arguments: object, launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start `torchrun --nproc-per-node COUNT -m headwise …`, with further options of torchrun."""
    return Popen(
        [*launch(count, "--standalone", *launcher), "headwise", *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_as_ranks(count: int, code: str, *arguments: object) -> list[Any]:
    """Run Python code in `count` processes that may join one process group; return what each prints, as JSON."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes: list[subprocess.Popen[str]] = []
    for rank in range(count):
        announced = {
            **{"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
        }
        command = [sys.executable, "-c", code, *map(str, arguments)]
        surroundings = environment(**{name: str(value) for name, value in announced.items()})
        processes.append(Popen(command, env=surroundings, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return [json.loads(output) for output in outputs]


def ranks_of(process: subprocess.Popen[str]) -> list[Rank]:
    """Return the processes that a launcher or a training has started, in the order of their start."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    return [Rank(int(pid)) for pid, parent, state in lines if int(parent) == process.pid and not state.startswith("Z")]

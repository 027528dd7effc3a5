"""Helpers that start `headwise` under torchrun, and find its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

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
    return subprocess.Popen(
        [*launch(count, "--standalone", *launcher), "headwise", *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ranks_of(process: subprocess.Popen[str]) -> list[Rank]:
    """Return the processes that a launcher or a training has started, in the order of their start."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()]
    return [
        Rank(int(pid)) for pid, parent, args in lines if int(parent) == process.pid and "headwise" in args
    ]

"""All measuring of speed, memory and start-up time: `python -m benchmarks NAME …`, from the root of the repository.

One module per benchmark; `systems` has what is measured against each other, `serving` the benchmarks of servers.
"""

from __future__ import annotations

import argparse
import subprocess

from headwise.processes import python_command


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's arguments."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def headwise(*arguments: object) -> str:
    """Run a command of Headwise in a process of its own; return its standard output."""
    command = python_command("-m", "headwise", *map(str, arguments))
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

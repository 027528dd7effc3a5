"""Common parts of the benchmark subcommands: options, machine, systems and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise import bounds
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.bench.peer import Peer, Room, Setting
    from headwise.bench.workload import Workload

EMULATED = "bfloat16: skipped in PyTorch, as {device} has no instructions for it and PyTorch emulates it"

Against = Annotated[
    str, typer.Option("--against", help="Systems to compare with, such as huggingface,ctranslate2.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write machine and rows to this file, too.")]
Models = Annotated[str, typer.Option("--model", help="Model sizes (presets), such as tiny,base.")]
Source = Annotated[
    str | None, typer.Option("--source", help="Text to measure with; the built-in corpus if not given.")
]
Target = Annotated[str | None, typer.Option("--target", help="Its other language, line by line.")]
Vocabulary = Annotated[
    int,
    typer.Option(
        "--vocabulary", min=100, max=bounds.VOCABULARY, help="Subwords of the model, both languages."
    ),
]
Rounds = Annotated[
    int, typer.Option("--rounds", min=1, max=bounds.ROUNDS, help="Rounds; the figures are their medians.")
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", min=0, max=bounds.PROCESSES, help="Threads that a system may use; 0: all processors."
    ),
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, cuda:N, or auto for the first GPU there is.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="SYSTEM:WORDS, measure only its settings that have all these words, such as "
        "'ctranslate2:int8 2x1'; repeatable.",
    ),
]


def parse_numbers(option: str, text: str, most: int) -> list[int]:
    """Parse comma-separated whole numbers from 1 to `most`; raises `ConfigError`."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1 or max(numbers) > most:
        raise ConfigError(
            f"{option}: expected whole numbers of at least 1 and at most {most:,}, such as 64,1, found {text!r}"
        )
    return numbers


def parse_names(text: str) -> list[str]:
    """Parse comma-separated names."""
    return [part.strip() for part in text.split(",") if part.strip()]


def make_room(device: str, threads: int) -> Room:
    """Return the resources of the systems: device, threads (0: all processors), and precisions it supports natively."""
    from headwise.bench.peer import Room
    from headwise.nn.device import find_device, has_fast_bfloat16, processors

    resolved = find_device(device)
    precisions = ("bfloat16", "float32") if has_fast_bfloat16(resolved) else ("float32",)
    return Room(str(resolved), threads or processors(), precisions)


def emulated_lines(room: Room) -> Iterator[str]:
    """Yield a line for each PyTorch precision that isn't measured because the device only emulates it."""
    if "bfloat16" not in room.precisions:
        yield EMULATED.format(device=room.device)


def show_machine(room: Room, peers: Sequence[Peer]) -> dict[str, Any]:
    """Print the machine and the versions to standard error, and return them for the JSON record."""
    from headwise.bench import report

    machine = report.machine(room.device, room.threads, peers)
    tell_all(report.machine_lines(machine))
    return machine


def installed_peers(against: str) -> list[Peer]:
    """Return Headwise and the requested systems that are installed; print a line for each that isn't."""
    from headwise.bench.peers import OWN, find_peer

    peers = [find_peer(name) for name in dict.fromkeys([OWN, *parse_names(against)])]
    tell_all(reason for peer in peers if (reason := peer.absent()))
    return [peer for peer in peers if not peer.absent()]


def able_peers(
    chosen: Iterable[tuple[Peer, Sequence[Setting]]], workload: Workload, task: str
) -> list[tuple[Peer, Sequence[Setting]]]:
    """Return the systems that support this model and task, with their settings; print why others are skipped."""
    able = []
    for peer, settings in chosen:
        reason = peer.refuses(workload)
        if not reason and task == "training" and not settings:
            reason = f"{peer.name}: skipped, no setting of it trains here"
        if reason:
            tell(reason)
        else:
            able.append((peer, settings))
    return able


def only_settings(peer: Peer, settings: list[Setting], only: list[str] | None) -> list[Setting]:
    """Return the settings of a system that match --only; all if it doesn't name the system. Raises `ConfigError`."""
    filters = [
        words.split() for name, _, words in (o.partition(":") for o in only or []) if name == peer.name
    ]
    if not filters or not settings:
        return settings
    kept = [s for s in settings if any(set(words) <= set(str(s).split()) for words in filters)]
    if not kept:
        known = "; ".join(map(str, settings))
        raise ConfigError(
            f"--only: expected words of a setting of {peer.name} ({known}), found none that fits"
        )
    return kept


def tell(line: str) -> None:
    """Write a line to standard error."""
    typer.echo(line, err=True)


def tell_all(lines: Iterable[str]) -> None:
    """Write lines to standard error."""
    for line in lines:
        tell(line)

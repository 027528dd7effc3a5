"""Common parts of the benchmarks of systems: options, machine, systems and their settings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.systems import OWN, find_peer, report
from benchmarks.systems.peer import Peer, Room, Setting
from benchmarks.systems.workload import Workload
from headwise import bounds
from headwise.config.presets import preset
from headwise.errors import ConfigError
from headwise.shipped.runs import find_run

EMULATED = "bfloat16: skipped in PyTorch, as {device} has no instructions for it and PyTorch emulates it"


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return the type of an option: a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least:,} to {most:,}, found {text!r}")
        return number

    return parse


def named_run(text: str) -> Path:
    """Return the type of RUN: a trained run directory, or `demo` for the model in the package."""
    return find_run(Path(text))


def add_against(parser: argparse.ArgumentParser) -> None:
    """Add the option for other systems."""
    parser.add_argument("--against", default="", help="systems to compare with: huggingface,ctranslate2")


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses among the settings of a system."""
    parser.add_argument(
        "--only",
        action="append",
        help="SYSTEM:WORDS, measure only its settings that have all these words, such as 'ctranslate2:int8 2x1'; "
        "repeatable",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the argument of a trained run."""
    parser.add_argument(
        "run", nargs="?", type=named_run, help="a trained run; without, an untrained model of --model size"
    )


def add_text(parser: argparse.ArgumentParser) -> None:
    """Add the options for models, text and vocabulary."""
    parser.add_argument("--model", default="tiny", help="model sizes (presets), such as tiny,base")
    parser.add_argument("--source", help="text to measure with; the built-in corpus if not given")
    parser.add_argument("--target", help="its other language, line by line")
    parser.add_argument(
        "--vocabulary", type=whole(100, bounds.VOCABULARY), default=10_000, help="subwords of the model"
    )


def add_rounds(parser: argparse.ArgumentParser, rounds: int, threads: int = 0) -> None:
    """Add the options for rounds, threads and the JSON file, with these defaults."""
    parser.add_argument("--rounds", type=whole(1, bounds.ROUNDS), default=rounds, help="the figures are their medians")
    parser.add_argument(
        "--threads",
        type=whole(0, bounds.PROCESSES),
        default=threads,
        help="that a system may use; 0: all processors",
    )
    parser.add_argument("--json", type=Path, help="write machine and rows to this file, too")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option for the device."""
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, or auto for the first GPU")


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


def parse_models(text: str) -> list[str]:
    """Parse comma-separated model sizes; raises `ConfigError` for an unknown one."""
    names = parse_names(text)
    for name in names:
        preset(name)
    return names


def make_room(device: str, threads: int) -> Room:
    """Return the resources of the systems: device, threads (0: all processors), and precisions it supports natively."""
    from headwise.nn.device import find_device, has_fast_bfloat16
    from headwise.processes import processors

    resolved = find_device(device)
    precisions = ("bfloat16", "float32") if has_fast_bfloat16(resolved) else ("float32",)
    return Room(str(resolved), threads or processors(), precisions)


def emulated_lines(room: Room) -> Iterator[str]:
    """Yield a line for each PyTorch precision that isn't measured because the device only emulates it."""
    if "bfloat16" not in room.precisions:
        yield EMULATED.format(device=room.device)


def show_machine(room: Room, peers: Sequence[Peer]) -> dict[str, Any]:
    """Print the machine and the versions to standard error, and return them for the JSON record."""
    machine = report.machine(room.device, room.threads, peers)
    tell_all(report.machine_lines(machine))
    return machine


def installed_peers(against: str) -> list[Peer]:
    """Return Headwise and the requested systems that are installed; print a line for each that isn't."""
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
    filters = [words.split() for name, _, words in (o.partition(":") for o in only or []) if name == peer.name]
    if not filters or not settings:
        return settings
    kept = [s for s in settings if any(set(words) <= set(str(s).split()) for words in filters)]
    if not kept:
        known = "; ".join(map(str, settings))
        raise ConfigError(f"--only: expected words of a setting of {peer.name} ({known}), found none that fits")
    return kept


def tell(line: str) -> None:
    """Write a line to standard error."""
    print(line, file=sys.stderr, flush=True)


def tell_all(lines: Iterable[str]) -> None:
    """Write lines to standard error."""
    for line in lines:
        tell(line)

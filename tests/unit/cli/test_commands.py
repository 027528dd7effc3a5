"""The table of commands: groups, help that fits on a screen, and names of earlier versions."""

from __future__ import annotations

import importlib

import pytest

from headwise.cli.main import COMMANDS, GONE, GROUPS
from program import call

_SCREEN = 50  # lines
SUBCOMMANDS = [
    (name, str(one.name))
    for name, (module, _) in COMMANDS.items()
    if (app := getattr(importlib.import_module(module), "app", None)) is not None
    for one in app.registered_commands
]


def test_help_groups_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "--help").out
    assert {group: list(commands) for group, commands in GROUPS.items()} == {
        "Make": ["demo", "train", "data"],
        "Use": ["translate", "predict", "evaluate", "serve", "keys"],
        "Look": ["explain", "analyze", "learn", "reproduce"],
        "Exchange": ["import", "export"],
    }
    places = [text.index(f"\n{group}:\n") for group in GROUPS]
    assert places == sorted(places)
    for group, commands in GROUPS.items():
        part = text.split(f"\n{group}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in part.splitlines()] == list(commands)


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), *SUBCOMMANDS], ids=" ".join)
def test_help_fits_on_a_screen(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = call(capsys, *command, "--help")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert len(lines) <= _SCREEN
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", [name for name in GONE if tuple(name.split()) not in SUBCOMMANDS])
def test_a_name_of_an_earlier_version_says_where_it_went(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = call(capsys, *name.split(), "more")
    assert outcome.error.startswith(f"{name}: ")
    assert outcome.error.endswith(GONE[name])
    assert outcome.err.count("\n") == 1
    words = [sentence.split() for sentence in GONE[name].replace(",", "").split("headwise ")[1:]]
    for word, *more in words:
        assert word in COMMANDS
        assert word not in ("analyze", "data") or (word, more[0]) in SUBCOMMANDS

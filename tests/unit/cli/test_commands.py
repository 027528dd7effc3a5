"""The table of commands: groups, help that fits on a screen, and names of earlier versions."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from commands import every_command
from headwise.cli.main import COMMANDS, GONE, GROUPS
from program import Call

_SCREEN = 50  # lines
SUBCOMMANDS = [words for words in every_command() if len(words) == 2]


def test_help_groups_the_commands(program: Call) -> None:
    text = program("--help").out
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
def test_help_fits_on_a_screen_and_has_an_example(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, program: Call
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = program(*command, "--help").ok().out
    assert len(out.splitlines()) <= _SCREEN
    assert max(map(len, out.splitlines())) <= 80
    assert " ".join(["headwise", *command]) in out
    assert "Example" in out or command in ((), ("data",))  # whose subcommands have them


@pytest.mark.parametrize("name", [name for name in GONE if tuple(name.split()) not in SUBCOMMANDS])
def test_a_name_of_an_earlier_version_says_where_it_went(name: str, program: Call) -> None:
    outcome = program(*name.split(), "more")
    assert outcome.error.startswith(f"{name}: ")
    assert outcome.error.endswith(GONE[name])
    assert outcome.err.count("\n") == 1
    words = [sentence.split() for sentence in GONE[name].replace(",", "").split("headwise ")[1:]]
    for word, *more in words:
        assert word in COMMANDS
        assert word not in ("analyze", "data") or (word, more[0]) in SUBCOMMANDS


def test_the_end_of_a_file_is_no_interruption(monkeypatch: pytest.MonkeyPatch, program: Call) -> None:
    """An EOFError that nobody has caught is a bug of ours; typer takes it for Ctrl-D."""

    def command() -> None:
        raise EOFError("No data left in file")

    module = ModuleType("broken")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken", module)
    monkeypatch.setitem(COMMANDS, "demo", ("broken", ""))
    with pytest.raises(EOFError, match="No data left in file"):
        program("demo")

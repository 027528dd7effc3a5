"""A command that can't do what it was asked for leaves the file that `-o` names as it was."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from headwise.cli.main import COMMANDS
from program import Call

PRECIOUS = "Das ist die einzige Abschrift.\n"
# Command -> its arguments with a wrong input, once for each kind of input; each is an error of its own.
WRONG = {
    "demo": ["--steps 3"],
    "train": [
        "--source typo.en --target typo.de",
        "-c typo.yaml",
        "--source good.en --target good.en --max-steps none",
    ],
    "data get": ["typo", "miniature"],
    "data prepare": ["--source typo.en --target typo.de"],
    "translate": [
        "demo typo.en",
        "typo good.en",
        "demo bad.en",
        "demo good.en --chunk 1 -s beam=typo",
        "demo good.en --glossary typo.tsv",
        "demo good.en --prefix-file typo.txt",
        "demo typo.html",
    ],
    "predict": ["demo good.en", "typo good.en"],
    "evaluate": [
        "demo --source typo.en --reference typo.de",
        "demo --source good.en --reference short.en",
        "demo --source bad.en --reference good.en --per-line",
        "demo --source good.en --reference short.en --per-line",
    ],
    "explain": ["demo", "typo --text Dog.", "demo --text Dog. --target-text Hund --layer 99"],
    "analyze heads": ["typo", "demo --source typo.en"],
    "analyze align": ["demo --source typo.en --target typo.de", "demo --source good.en --target short.en"],
    "analyze calibration": ["typo", "demo --source typo.en --target typo.de"],
    "reproduce": ["typo"],
    "import": ["typo", "demo"],
    "export": ["typo --to huggingface", "demo --to typo", "demo --to run --average 5"],
}


def commands_with_an_output() -> Iterator[str]:
    for name, (module, _) in COMMANDS.items():
        found: Any = importlib.import_module(module)
        app = getattr(found, "app", None)
        if app is None:
            app = typer.Typer()
            app.command(name)(found.command)
        command: Any = typer.main.get_command(app)
        for path, part in getattr(command, "commands", {"": command}).items():
            if any("--out" in parameter.opts for parameter in part.params):
                yield f"{name} {path}".strip()


def test_every_command_with_an_output_is_tried() -> None:
    assert sorted(commands_with_an_output()) == sorted(WRONG)


@pytest.mark.parametrize(
    ("command", "arguments"), [(command, case) for command, cases in WRONG.items() for case in cases]
)
def test_a_wrong_input_leaves_the_output(
    command: str, arguments: str, program: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.en").write_text("Dog bites man.\nMan bites dog.\n")
    Path("short.en").write_text("Dog bites man.\n")
    Path("bad.en").write_bytes(b"Dog bites man.\n\xff\n")
    suffix = (
        ".html"
        if arguments.endswith(".html")
        else ".png"
        if command in ("explain", "analyze heads")
        else ".de"
    )
    precious = Path(f"precious{suffix}")
    precious.write_text(PRECIOUS)
    assert program(
        *command.split(), *arguments.split(), "-o" if command != "reproduce" else "--out", precious
    ).error
    assert precious.read_text() == PRECIOUS
    assert not [file for file in tmp_path.iterdir() if ".partial-" in file.name]


def test_a_pipe_gets_the_lines_as_they_come(program: Call, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("Dog bites man.\n")
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    assert program("translate", "demo", tmp_path / "in.en", "-o", tmp_path / "pipe").code == 0
    reader.join()
    assert read == ["Hund beißt Mann.\n"]
    assert (tmp_path / "pipe").is_fifo()


def test_an_output_behind_a_link_is_written_there(program: Call, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("Dog bites man.\n")
    (tmp_path / "link.de").symlink_to(tmp_path / "out.de")
    arguments = ["--source", tmp_path / "in.en", "--reference", tmp_path / "in.en"]
    assert program("evaluate", "demo", *arguments, "-o", tmp_path / "link.de").code == 0
    assert (tmp_path / "link.de").is_symlink()
    assert (tmp_path / "out.de").read_text() == "Hund beißt Mann.\n"

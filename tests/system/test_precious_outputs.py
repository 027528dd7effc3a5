"""A command that can't do what it was asked for leaves the file that `-o` names as it was."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from commands import every_command
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


def test_every_command_with_an_output_is_tried() -> None:
    options = {
        words: {name for one in command.params for name in one.opts} for words, command in every_command().items()
    }
    assert {" ".join(words) for words, names in options.items() if "--out" in names} == {*WRONG}


@pytest.mark.parametrize(
    ("command", "arguments"), [(command, case) for command, cases in WRONG.items() for case in cases]
)
def test_a_wrong_input_leaves_the_output(command: str, arguments: str, program: Call, here: Path) -> None:
    Path("good.en").write_text("Dog bites man.\nMan bites dog.\n")
    Path("short.en").write_text("Dog bites man.\n")
    Path("bad.en").write_bytes(b"Dog bites man.\n\xff\n")
    suffix = ".png" if command in ("explain", "analyze heads") else ".de"
    precious = Path(f"precious{'.html' if arguments.endswith('.html') else suffix}")
    precious.write_text(PRECIOUS)
    option = "-o" if command != "reproduce" else "--out"
    assert program(*command.split(), *arguments.split(), option, precious).error
    assert precious.read_text() == PRECIOUS
    assert not list(here.glob("*.partial-*"))


def test_a_pipe_gets_the_lines_as_they_come(program: Call, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("Dog bites man.\n")
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    program("translate", "demo", tmp_path / "in.en", "-o", tmp_path / "pipe").ok()
    reader.join()
    assert read == ["Hund beißt Mann.\n"]
    assert (tmp_path / "pipe").is_fifo()


def test_an_output_behind_a_link_is_written_there(program: Call, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("Dog bites man.\n")
    (tmp_path / "link.de").symlink_to(tmp_path / "out.de")
    arguments = ["--source", tmp_path / "in.en", "--reference", tmp_path / "in.en"]
    program("evaluate", "demo", *arguments, "-o", tmp_path / "link.de").ok()
    assert (tmp_path / "link.de").is_symlink()
    assert (tmp_path / "out.de").read_text() == "Hund beißt Mann.\n"

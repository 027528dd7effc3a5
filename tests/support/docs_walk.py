"""Pages of docs as walks: their files are written, and their commands and code run, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headwise.corpora.built_in import read_built_in
from paths import DOCS
from program import call, environment

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w/]+\.py)\n")


def write_pairs(folder: Path, count: int, *, test: int = 20) -> None:
    """Write `train.en` and `train.de`, pairs of the built-in corpus, and some others as `test`."""
    for language in ("en", "de"):
        lines = read_built_in("miniature", f"train.{language}")
        step = len(lines) // (count + test)
        chosen = lines[: step * (count + test) : step]
        for name, part in (("train", chosen[:count]), ("test", chosen[count:])):
            (folder / f"{name}.{language}").write_text("\n".join(part) + "\n", encoding="utf-8")


def walk(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str], changes: Mapping[str, str] | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Run the blocks of a page in a folder; return what each command printed, and the names that its code defined.

    A block of Python whose first line is `# name.py` is that file. Commands run in this process, except in pipes.
    `changes` replace text of the page, each of which must be there. The caller changes to the folder.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert old in text, f"{page} has no {old!r}"
        text = text.replace(old, new)
    printed: list[str] = []
    names: dict[str, Any] = {"__name__": "page"}
    for language, block in _BLOCK.findall(text):
        if language == "python" and (named := _FILE.match(block)):
            (folder / named[1]).write_text(block, encoding="utf-8")
        elif language == "python":
            exec(compile(block, page, "exec"), names)
        elif language == "sh":
            printed += [
                _run(command, capsys) for command in block.replace("\\\n", " ").splitlines() if command
            ]
    return printed, names


def _run(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command; return what it printed on both streams."""
    if command.startswith("headwise ") and "|" not in command:
        outcome = call(capsys, *shlex.split(command, comments=True)[1:])
        assert outcome.code == 0, f"{command}\n{outcome.err}"
        return outcome.err + outcome.out
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        env=environment(PATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout

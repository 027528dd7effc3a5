"""Pages of docs as walks: their files are written, and their commands and code run, in the order of the page."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paths import DOCS
from program import Call, shell_environment

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w/]+\.py)\n")


def walk(
    page: str, folder: Path, program: Call, changes: Mapping[str, str] | None = None
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
            lines = block.replace("\\\n", " ").splitlines()
            printed += [_run(command, program) for command in lines if command]
    return printed, names


def _run(command: str, program: Call) -> str:
    """Run a command; return what it printed on both streams."""
    if command.startswith("headwise ") and "|" not in command:
        outcome = program(*shlex.split(command, comments=True)[1:])
        assert outcome.code == 0, f"{command}\n{outcome.err}"
        return outcome.err + outcome.out
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, shell=True, env=shell_environment(), check=False, **streams)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout

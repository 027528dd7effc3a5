"""The chapters in `pages/`: Markdown whose code is run, with what it prints inserted below.

A block that begins with ```python is run, all blocks of a chapter in one namespace; ```sh run is a command line of
`headwise`, which is run. What a block prints stands in a block ```output below it. Blocks ```sh recorded show
what the model in the package says, which may differ in a digit on another processor: they are run on request and keep
what they printed then. Blocks ```sh are not run. Code that draws a picture writes it below the chapter's folder
(`headwise.learn.pictures.save`). A link `live:FRAGMENT` leads to the page of `headwise serve` in that state.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from headwise.errors import DataError
from headwise.files import write_text

# A block that is run, with what it printed.
BLOCK = re.compile(
    r"^```(?P<kind>python|sh run|sh recorded)\n(?P<code>.*?)^```\n(?:\n```output\n.*?^```\n)?",
    re.DOTALL | re.MULTILINE,
)
_SECONDS = 120  # that one command may take
PAGES = Path(__file__).parent / "pages"


def chapters(folder: Path) -> list[Path]:
    """Return the chapters of a folder in their order: its files `NN-name.md`."""
    return sorted(folder.glob("[0-9][0-9]-*.md"))


def with_outputs(text: str, name: str, folder: Path, *, record: bool = False) -> str:
    """Run the blocks of a chapter in `folder` and return its text with what they print.

    With `record`, blocks that are recorded run, too. Raises `DataError` naming the chapter and the line where a block
    fails.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}

    def run(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        code = match["code"]
        if match["kind"] == "python":
            printed = _python(code, namespace, name, line)
        elif match["kind"] == "sh run":
            printed = _shell(code, name, line)
        elif record:
            printed = _recorded(code, name, line)
        else:
            return match[0]
        block = f"```{match['kind']}\n{code}```\n"
        return f"{block}\n```output\n{printed.rstrip()}\n```\n" if printed.strip() else block

    with contextlib.chdir(folder):
        return BLOCK.sub(run, text)


def _python(code: str, namespace: dict[str, object], name: str, line: int) -> str:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, name, "exec"), namespace)
    except Exception as error:
        raise DataError(f"{name} line {line}: the code fails: {type(error).__name__}: {error}") from error
    return printed.getvalue()


def _shell(code: str, name: str, line: int) -> str:
    words = shlex.split(code)
    if not words or words[0] != "headwise":
        raise DataError(f"{name} line {line}: expected a command of headwise, found {code.strip()!r}")
    command = [sys.executable, "-P", "-m", *words]
    return _printed(command, f"{name} line {line}: {code.strip()}", timeout=_SECONDS)


def _recorded(code: str, name: str, line: int) -> str:
    """Run command lines in an empty folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PATH": path}
        command = ["bash", "-c", code]
        return _printed(command, f"{name} line {line}: {code.strip()}", cwd=folder, env=environment)


def _printed(command: list[str], what: str, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise DataError(f"{what} fails: {done.stderr.strip()}")
    return done.stdout


def update(folder: Path, *, record: bool = False) -> list[Path]:
    """Run all chapters of a folder and write their new text; returns the files that changed; see `with_outputs`."""
    changed = []
    for file in chapters(folder):
        text = file.read_text(encoding="utf-8")
        new = with_outputs(text, file.name, folder, record=record)
        if new != text:
            write_text(file, new)
            changed.append(file)
    return changed

"""The commands that docs/serve.md shows, run against a server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from headwise.serve.translation.glossaries import GlossaryStore
from paths import DOCS
from translation_server import make_pair, translating

TEXT = (DOCS / "serve.md").read_text(encoding="utf-8")
COMMANDS = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "curl" in block]
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("runs")
    store = GlossaryStore(folder / "glossaries.db")
    with translating([make_pair(folder, "en", "de")], glossaries=store) as address:
        yield address


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 8
    assert len(PROGRAMS) == 3


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_shown_command(command: str, address: str, tmp_path: Path) -> None:
    command = command.replace("http://localhost:8080", address).replace("curl ", "curl -sS --fail-with-body ")
    done = subprocess.run(
        ["bash", "-e", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "stream" in command:
        assert done.stdout.count("event: sentence") == 2
        assert "event: end" in done.stdout
    else:
        assert json.loads(done.stdout)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_shown_program(program: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("deepl")
    pytest.importorskip("libretranslatepy")
    exec(program.replace("http://localhost:8080", address), {})
    assert capsys.readouterr().out.strip()

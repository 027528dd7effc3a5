"""Hostile documents: each is refused with one sentence or read, within bounds on time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx

from hostile_documents import READ, REFUSED
from program import Call
from translation_server import make_pair, translating

PROGRAM = Path(__file__).with_name("hostile_documents.py")
SLOW = ("messages.po", "values.properties")  # to read, before they are refused
TRIED = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name in REFUSED
    if not name.startswith(("elements", "comments"))
]
MOST_SECONDS, MOST_MB = 15, 350  # of one file; of the process that reads all of them


@pytest.mark.slow
def test_hostile_documents_are_bounded() -> None:
    """All in one test: another process that ran a part of them would read them all."""
    # a sanitizer takes memory
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, check=True, timeout=500, env=plain)
    found = json.loads(done.stdout)
    assert found["memory"] < MOST_MB
    assert {name for name, (_, seconds) in found["files"].items() if seconds > MOST_SECONDS} == set()
    outcomes = {name: outcome for name, (outcome, _) in found["files"].items()}
    assert {name: outcomes[name] for name in READ} == {name: characters for name, (_, characters) in READ.items()}
    for name, (_, sentence) in REFUSED.items():
        assert outcomes[name].startswith(sentence), name
        assert "\n" not in outcomes[name], name


@pytest.mark.parametrize("name", TRIED)
def test_the_command_refuses_it_in_one_sentence(name: str, tmp_path: Path, program: Call) -> None:
    file, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    file.write_bytes(REFUSED[name][0]())
    out.write_text("old")
    outcome = program("translate", "demo", file, "-o", out)
    assert f"{file}: {REFUSED[name][1].removeprefix('file: ')}" in outcome.error
    assert outcome.err.count("\n") == 1
    assert out.read_text() == "old"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with translating([make_pair(tmp_path_factory.mktemp("runs"), "en", "de")]) as address:
        yield address


@pytest.mark.parametrize("name", [*TRIED, "comment.docx", "space.docx", "section.docx"])
def test_the_server_refuses_it(name: str, address: str) -> None:

    languages, files = {"source": "en", "target": "de"}, {"file": (name, (REFUSED | READ)[name][0]())}
    answer = httpx.post(f"{address}/translate_file", data=languages, files=files, timeout=60)
    if name in READ:
        assert answer.status_code == 413
        said = f"request: expected at most 50,000 characters, found {READ[name][1]:,}"
        assert answer.json()["error"] == said
    else:
        assert answer.status_code in (400, 413)

"""Hostile documents: each is refused with one sentence or read, within bounds on time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostile_documents import READ, REFUSED

PROGRAM = Path(__file__).with_name("hostile_documents.py")
MOST_SECONDS, MOST_MB = 15, 350  # of one file; of the process that reads all of them


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, check=True, timeout=500)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [*REFUSED, *READ])
def test_a_hostile_document_is_bounded(outcomes: dict[str, Any], name: str) -> None:
    outcome, seconds = outcomes["files"][name]
    assert seconds < MOST_SECONDS
    if name in READ:
        assert outcome == READ[name][1]
    else:
        assert outcome.startswith(REFUSED[name][1])
        assert "\n" not in outcome


def test_all_hostile_documents_take_little_memory(outcomes: dict[str, Any]) -> None:
    assert outcomes["memory"] < MOST_MB

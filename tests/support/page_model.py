"""The page's model in node: answers to requests, and splits of texts, for comparison with the server's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node: apt install nodejs")

Request = tuple[str, dict[str, Any]]


def in_browser(folder: Path, requests: Sequence[Request]) -> list[Any]:
    """Answer requests with the model of an exported page; `folder` is its folder `run`."""
    return run_script("ask_page.mjs", folder, requests)


def through_client(folder: Path, requests: Sequence[tuple[str, str | None]]) -> list[Any]:
    """Ask a page whose browser loads a text for each request, or nothing."""
    return run_script("ask_client.mjs", folder, requests)


def split_and_join(model: Path, texts: Sequence[str], pieces: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Split texts into `pieces` and join pieces to `texts` with the page's SentencePiece."""
    return run_script("split_page.mjs", model, {"texts": texts, "pieces": pieces})


def run_script(name: str, argument: Path, given: Any) -> Any:
    assert NODE is not None
    command = [NODE, str(Path(__file__).with_name(name)), str(argument)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

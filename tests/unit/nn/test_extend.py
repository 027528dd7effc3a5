"""The code examples in docs/models.md run and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from headwise.nn import attention, positions
from headwise.nn.attention import attend
from paths import DOCS

DOCUMENT = DOCS / "models.md"


def run_blocks(document: Path) -> int:
    """Run the Python blocks of a document, in order and in one namespace."""
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)
    return len(blocks)


def test_the_examples_run_and_do_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_KINDS", dict(attention._KINDS))
    monkeypatch.setattr(positions, "_ENCODINGS", dict(positions._ENCODINGS))
    assert run_blocks(DOCUMENT) == 6
    q, k, v = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 4)
    cosines = torch.nn.functional.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)
    assert_close(attend(q, k, v, kind="cosine"), (10 * cosines).softmax(-1) @ v)
    assert_close(attend(q, k, v, kind="mean"), v.mean(2, keepdim=True).expand(1, 1, 3, 4))

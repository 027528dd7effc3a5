"""docs/extend.md, run: what it adds works as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from headwise.nn import attention, positions
from headwise.nn.attention import attend

DOCUMENT = Path(__file__).parents[2] / "docs" / "extend.md"


def test_the_examples_run_and_do_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_KINDS", dict(attention._KINDS))
    monkeypatch.setattr(positions, "_ENCODINGS", dict(positions._ENCODINGS))
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    q, k, v = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 4)
    cosines = torch.nn.functional.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)
    assert_close(attend(q, k, v, kind="cosine"), (10 * cosines).softmax(-1) @ v)
    assert_close(attend(q, k, v, kind="mean"), v.mean(2, keepdim=True).expand(1, 1, 3, 4))

"""The code examples in docs/models.md run and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.nn import attention, positions
from headwise.nn.attention import Bias, Mask, attend, register
from headwise.nn.attention_positions import ALiBi
from headwise.nn.mixing import Role
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.recording import recording
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


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("role", ["self", "causal"])
def test_what_a_kind_that_names_no_weights_computes_is_recorded(
    monkeypatch: pytest.MonkeyPatch, role: Role, structured: bool
) -> None:
    monkeypatch.setattr(attention, "_KINDS", dict(attention._KINDS))

    @register("sharp", structured=structured)
    def sharp(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias, dropout: float, **structure: Any) -> Tensor:
        return attend(3 * q, k, v, mask=mask, bias=bias, dropout=dropout, **structure)

    alibi = ALiBi(ModelConfig(heads=2), causal=role == "causal")
    layer = MultiHeadAttention(8, 2, key_value_heads=1, kind="sharp", role=role, positions=alibi).eval()
    x, mask = torch.randn(2, 5, 8), torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[0, ..., 3:] = False
    expected = layer(x, mask)
    with recording(layer) as recorded:
        assert_close(layer(x, mask), expected)
    assert_close(recorded.weights[""][0].sum(-1), torch.ones(2, 2, 5))
    assert recorded.weights[""][0][0, ..., 3:].eq(0).all()

"""Position encodings against those of Hugging Face's T5 and Llama."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from headwise.config import ModelConfig
from headwise.nn.attention_positions import Rotary, t5_bucket


def test_rotary_in_halves_is_llamas() -> None:
    """x cos + rotate_half(x) sin, with each frequency twice (transformers' apply_rotary_pos_emb)."""
    config = ModelConfig.model_validate(
        {"d_model": 16, "heads": 2, "position_options": {"rotary": {"pairs": "halves"}}}
    )
    x = torch.randn(1, 2, 5, 8)
    angle = torch.arange(5.0)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    angle = torch.cat([angle, angle], -1)[None]
    expected, _ = apply_rotary_pos_emb(x, x, angle.cos(), angle.sin())
    assert_close(Rotary(config, causal=False).rotate(x, 0), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (16, 1000)])
def test_t5_buckets_are_hugging_faces(causal: bool, buckets: int, reach: int) -> None:
    distance = torch.arange(-3000, 3001)
    expected = T5Attention._relative_position_bucket(
        distance, bidirectional=not causal, num_buckets=buckets, max_distance=reach
    )
    assert torch.equal(t5_bucket(distance, causal=causal, buckets=buckets, reach=reach), expected)

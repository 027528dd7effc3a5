"""Position encodings against their papers' formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.nn.attention import attention_weights
from headwise.nn.attention_positions import alibi_slopes, t5_bucket
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions, attention_positions, shift_matrix, sinusoids
from headwise.nn.recording import recording
from headwise.nn.relative import RelativeBias


def inside(name: str, causal: bool = False, heads: int = 2, d_k: int = 8, **options: Any) -> AttentionPositions:
    torch.manual_seed(0)
    config = ModelConfig.model_validate(
        {
            "d_model": heads * d_k,
            "heads": heads,
            "positions": name,
            "position_options": {name: options} if options else {},
        }
    )
    (positions,) = attention_positions(config, 1, causal=causal)
    assert positions is not None
    return positions


@pytest.mark.parametrize("offset", [0, 1, 37, -5])
def test_the_shift_matrix_moves_every_position_alike(offset: int) -> None:
    table = sinusoids(200, 16).double()
    found = table[10:150] @ shift_matrix(offset, 16).t()
    assert_close(found, table[10 + offset : 150 + offset], rtol=0, atol=1e-6)


def test_shifts_compose_and_keep_lengths() -> None:
    one, two = shift_matrix(1, 12), shift_matrix(2, 12)
    assert_close(one @ one, two)
    assert_close(two @ shift_matrix(-2, 12), torch.eye(12, dtype=torch.float64))
    assert_close(two.t() @ two, torch.eye(12, dtype=torch.float64))


@pytest.mark.parametrize("pairs", ["adjacent", "halves"])
def test_rotary_scores_depend_on_distances_only(pairs: str) -> None:
    rotary = inside("rotary", pairs=pairs)
    q, k = torch.randn(1, 2, 6, 8, dtype=torch.float64), torch.randn(1, 2, 6, 8, dtype=torch.float64)

    def scores(start: int) -> Tensor:
        return rotary.rotate(q, start) @ rotary.rotate(k, start).transpose(-2, -1)

    assert_close(scores(0), scores(1000), rtol=1e-9, atol=1e-9)
    shifted = rotary.rotate(q, 1) @ rotary.rotate(k, 0).transpose(-2, -1)
    assert not torch.allclose(scores(0), shifted)


def test_rotary_is_the_papers_rotation_in_the_plane() -> None:
    """Su et al. 2021, section 3.2.1: in two dimensions, multiplication of complex numbers by e^(i m θ)."""
    rotary = inside("rotary", base=100.0)
    x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    found = torch.view_as_complex(rotary.rotate(x, 3).unflatten(-1, (4, 2)).contiguous())
    plane = torch.view_as_complex(x.unflatten(-1, (4, 2)).contiguous())
    for m in range(5):
        for i in range(4):
            turn = torch.polar(torch.ones(()).double(), torch.tensor((m + 3) * 100.0 ** (-2 * i / 8)).double())
            assert_close(found[:, :, m, i], plane[:, :, m, i] * turn)


def test_rotary_needs_pairs() -> None:
    with pytest.raises(ConfigError, match=r"model.positions=rotary needs an even model.d_k, found 7"):
        inside("rotary", d_k=7)


def test_alibi_slopes_are_the_papers() -> None:
    """Section 3: for 8 heads 1/2, 1/4, … 1/256; for 16, starting from 1/√2, every next is times 1/√2."""
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(16) == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
    twelve = alibi_slopes(12)
    assert twelve[:8] == alibi_slopes(8)
    assert twelve[8:] == pytest.approx(alibi_slopes(16)[0:8:2])
    assert alibi_slopes(1) == [2.0**-8]


def test_alibi_is_minus_the_slope_times_the_distance() -> None:
    alibi = inside("alibi", heads=4, d_k=4)
    bias = alibi.bias(torch.zeros(1, 4, 3, 4), keys=7)
    assert bias is not None
    dense = bias.dense(3, 7)
    for h, slope in enumerate(alibi_slopes(4)):
        for i in range(3):
            for j in range(7):
                assert dense[0, h, i, j].item() == pytest.approx(-slope * abs(i + 4 - j))


@pytest.mark.parametrize("causal", [False, True])
def test_t5_looks_its_table_up_for_every_pair(causal: bool) -> None:
    t5: Any = inside("t5", causal, buckets=8, reach=10)
    for keys in (3, 40):
        bias = t5.bias(torch.zeros(1, 2, 3, 8), keys).dense(3, keys)
        distance = torch.arange(keys) - (torch.arange(3)[:, None] + keys - 3)
        bucket = t5_bucket(distance, causal=causal, buckets=8, reach=10)
        assert_close(bias[0], t5.table[bucket].permute(2, 0, 1))


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("values", [False, True])
def test_shaw_is_an_explicit_einsum(values: bool, per_head: bool) -> None:
    """Equations 3 and 4 with a_ij written out for every pair."""
    heads, time, d = 2, 9, 8
    positions: Any = inside("relative", heads=heads, d_k=d, reach=3, values=values, per_head=per_head)
    module = MultiHeadAttention(heads * d, heads, kind="reference" if values else "fused", positions=positions)
    x = torch.randn(2, time, heads * d)
    q, k, v = (part(x).view(2, time, heads, d) for part in (module.query, module.key, module.value))
    clipped = (torch.arange(time) - torch.arange(time)[:, None]).clamp(-3, 3) + 3

    def written_out(table: Tensor) -> Tensor:  # (heads, i, j, d)
        return table.expand(heads, -1, -1)[:, clipped]

    e = torch.einsum("bihd,bjhd->bhij", q, k) + torch.einsum("bihd,hijd->bhij", q, written_out(positions.keys))
    weights = (e / math.sqrt(d)).softmax(-1)
    z = torch.einsum("bhij,bjhd->bihd", weights, v)
    if values:
        z = z + torch.einsum("bhij,hijd->bihd", weights, written_out(positions.added))
    assert_close(module(x), module.output(z.flatten(2)), rtol=1e-5, atol=1e-5)


def test_a_recorded_weight_has_the_positions_in_it() -> None:
    module = MultiHeadAttention(16, 2, positions=inside("alibi"), role="causal")
    x = torch.randn(2, 5, 16)
    q, k, _ = module._project(x, module.query, module.key, module.value)
    distance = torch.arange(5)[:, None] - torch.arange(5)
    bias = -torch.tensor(alibi_slopes(2))[:, None, None] * distance.abs()
    with recording(module) as records:
        module(x)
    assert_close(records.weights[""][0], attention_weights(q, k, distance >= 0, bias))


def test_positions_never_act_on_other_sequences() -> None:
    plain = MultiHeadAttention(16, 2)
    for name in ("rotary", "alibi", "t5", "relative"):
        module = MultiHeadAttention(16, 2, positions=inside(name))
        module.load_state_dict(plain.state_dict(), strict=False)
        x, memory = torch.randn(2, 3, 16), torch.randn(2, 7, 16)
        assert torch.equal(
            module.cross_attend(x, module.project_memory(memory)),
            plain.cross_attend(x, plain.project_memory(memory)),
        )
        assert not torch.equal(module(x), plain(x))


def test_a_relative_bias_written_out_entry_by_entry() -> None:
    bias = RelativeBias(torch.randn(2, 3, 4, 5))
    dense = bias.dense(4, 9)
    for i in range(4):
        for j in range(9):
            distance = max(-2, min(2, j - (i + 5)))
            assert torch.equal(dense[:, :, i, j], bias.table[:, :, i, distance + 2])


def test_parameters_are_shared_as_the_papers_share_them() -> None:
    config = ModelConfig(positions="t5")
    assert len({id(p) for p in attention_positions(config, 3, causal=True)}) == 1
    config = ModelConfig(positions="relative")
    assert len({id(p) for p in attention_positions(config, 3, causal=True)}) == 3

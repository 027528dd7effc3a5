"""Multi-head attention: heads by the paper's formula, probes that record and replace weights, and the cache."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.nn.attention import attend
from headwise.nn.cache import KeyValueCache
from headwise.nn.masks import causal_mask, padding_mask
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.recording import recording


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def shaken(module: MultiHeadAttention) -> MultiHeadAttention:
    """Return the module with biases that aren't zero."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return module.eval()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["reference", "fused"])
def test_heads_of_any_size_stand_side_by_side(kind: str, bias: bool) -> None:
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O, head by head as section 3.2.2 has it; here d_k ≠ d_v."""
    heads, d_k, d_v = 3, 5, 7
    module = shaken(MultiHeadAttention(16, heads, key_size=d_k, value_size=d_v, bias=bias, kind=kind))
    x, memory = torch.randn(2, 4, 16), torch.randn(2, 6, 16)
    mask = padding_mask(torch.tensor([[True] * 6, [True] * 2 + [False] * 4]))

    def one_head(i: int) -> Tensor:
        q, k, v = (
            nn.functional.linear(
                y,
                part.weight[i * size : (i + 1) * size],
                part.bias[i * size : (i + 1) * size] if bias else None,
            )
            for y, part, size in (
                (x, module.query, d_k),
                (memory, module.key, d_k),
                (memory, module.value, d_v),
            )
        )
        return attend(q[:, None], k[:, None], v[:, None], mask=mask)[:, 0]

    expected = torch.cat([one_head(i) for i in range(heads)], dim=-1) @ module.output.weight.t()
    if bias:
        expected = expected + module.output.bias
    found = module.cross_attend(x, module.project_memory(memory), mask)
    assert found.shape == (2, 4, 16)
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_self_attention_is_attention_over_itself() -> None:
    module = shaken(MultiHeadAttention(16, 4, bias=True))
    x = torch.randn(3, 5, 16)
    assert_close(module(x), module.cross_attend(x, module.project_memory(x)), rtol=1e-5, atol=1e-6)


def test_self_attention_is_permutation_equivariant() -> None:
    module = MultiHeadAttention(16, 4)
    x, order = torch.randn(2, 7, 16), torch.randperm(7)
    assert_close(module(x)[:, order], module(x[:, order]), rtol=1e-5, atol=1e-6)


def test_an_unknown_kind_fails_when_the_module_is_built() -> None:
    with pytest.raises(ConfigError, match=r"model\.attention: expected one of .*, found 'fussed'"):
        MultiHeadAttention(16, 4, kind="fussed")
    with pytest.raises(ConfigError, match="role: expected one of self, causal, cross, found 'casual'"):
        MultiHeadAttention(16, 4, role="casual")  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [{"heads": 3}, {"heads": 0}, {"heads": 4, "key_value_heads": 3}])
def test_heads_that_dont_divide_fail_when_the_module_is_built(sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=rf"heads.*, found .*{list(sizes.values())[-1]}"):
        MultiHeadAttention(16, **sizes)


@pytest.mark.parametrize("kind", ["reference", "fused"])
@pytest.mark.parametrize("sizes", [[1] * 9, [4, 1, 3, 1]])
def test_step_by_step_equals_all_at_once(sizes: list[int], kind: str) -> None:
    module = shaken(MultiHeadAttention(16, 4, key_size=3, value_size=6, bias=True, kind=kind))
    x = torch.randn(2, 9, 16)
    expected = module(x, causal_mask(9))
    cache, parts = KeyValueCache(), []
    for part in x.split(sizes, dim=1):
        seen = cache.length + part.size(1)
        parts.append(module(part, causal_mask(part.size(1), seen), cache))
    assert_close(torch.cat(parts, 1), expected, rtol=1e-5, atol=1e-5)


def test_recording_gives_every_attention_by_name_and_leaves_no_trace() -> None:
    model = nn.ModuleDict({"first": MultiHeadAttention(8, 2), "rest": nn.ModuleList([MultiHeadAttention(8, 4)])})
    x = torch.randn(3, 5, 8)
    first, second = model["first"], model["rest"][0]  # type: ignore[index]
    plain = second(first(x))
    with recording(model) as records:
        recorded = second(first(x, causal_mask(5)))
        second(x)
    assert set(records.weights) == {"first", "rest.0"}
    assert [w.shape for w in records.weights["first"]] == [(3, 2, 5, 5)]
    assert [w.shape for w in records.weights["rest.0"]] == [(3, 4, 5, 5)] * 2
    weights = records.weights["first"][0]
    assert_close(weights.sum(-1), torch.ones(3, 2, 5))
    assert weights.triu(1).eq(0).all()
    assert not weights.requires_grad
    assert not torch.equal(recorded, plain)  # the recorded call had a causal mask
    assert not first.inspected
    assert not second.inspected
    assert torch.equal(second(first(x)), plain)
    assert len(records.weights["first"]) == 1  # nothing is recorded afterwards


def test_the_recorded_weights_are_those_used() -> None:
    module = MultiHeadAttention(8, 2)
    x = torch.randn(3, 5, 8)
    with recording(module) as records:
        out = module(x)
    values = module.project_memory(x)[1]
    heads = records.weights[""][0] @ values
    assert_close(out, module.output(heads.transpose(1, 2).flatten(2)), rtol=1e-5, atol=1e-6)


def test_probes_are_put_back_after_an_error() -> None:
    module = MultiHeadAttention(8, 2)
    module.probe = probe = lambda weights, mask: weights
    with pytest.raises(RuntimeError, match="stop"), recording(module):
        raise RuntimeError("stop")
    assert module.probe is probe


def test_a_probe_replaces_the_weights_and_is_recorded_as_it_left_them() -> None:
    module = MultiHeadAttention(8, 2, bias=True)
    x = torch.randn(3, 5, 8)
    module.probe = lambda weights, mask: torch.full_like(weights, 1 / 5)  # attend to everything alike
    with recording(module) as records:
        out = module(x)
    assert records.weights[""][0].eq(1 / 5).all()
    mean = module.project_memory(x)[1].mean(2, keepdim=True).expand(-1, -1, 5, -1)
    assert_close(out, module.output(mean.transpose(1, 2).flatten(2)), rtol=1e-5, atol=1e-6)


def test_recordings_nest() -> None:
    module = MultiHeadAttention(8, 2)
    x = torch.randn(1, 3, 8)
    with recording(module) as outer:
        with recording(module) as inner:
            module(x)
        module(x)
    assert len(inner.weights[""]) == 1
    assert len(outer.weights[""]) == 2
    assert torch.equal(inner.weights[""][0], outer.weights[""][0])
    assert not module.inspected


@pytest.mark.parametrize("probed", [False, True])
def test_dropout_acts_in_training_only(probed: bool) -> None:
    module = MultiHeadAttention(8, 2, dropout=0.5)
    if probed:
        module.probe = lambda weights, mask: weights.clone()
    x = torch.randn(3, 5, 8)
    module.train()
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_activations_keep_their_dtype_and_parameters_theirs() -> None:
    module = MultiHeadAttention(8, 2, bias=True)
    x = torch.randn(3, 5, 8)
    out = module(x.bfloat16())
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    for parameter in module.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
    assert_close(out.float(), module(x), rtol=0.05, atol=0.05)

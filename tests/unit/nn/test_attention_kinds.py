"""Every attention kind against its definition, and its guarantees: memory, gradients, causality, no NaN."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from attention_cases import Problem, problems
from headwise.config import AttentionOptions
from headwise.nn.attention import attend, attention_kind, attention_kinds
from headwise.nn.cache import RecurrentCache
from headwise.nn.masks import combine
from headwise.nn.memory import saved_bytes
from headwise.nn.relative import RelativeBias, dense_bias

KINDS = [kind.name for kind in attention_kinds()]
every_kind = pytest.mark.parametrize("kind", KINDS)
SMALL = AttentionOptions.model_validate(
    {
        "window": {"size": 3, "globals": 1},
        "block_sparse": {"local": 2, "stride": 3},
        "linear": {"chunk": 4},
        "memory_efficient": {"chunk": 4},
    }
)


@every_kind
@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_the_definition_in_float64(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind))
    assert_close(problem.attend(kind), problem.expected(kind), rtol=1e-10, atol=1e-10)


@every_kind
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float16, 0.05), (torch.bfloat16, 0.25)])
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_the_definition_in_lower_precision(
    kind: str, dtype: torch.dtype, tolerance: float, data: st.DataObject
) -> None:
    problem = data.draw(problems(kind, longest=20)).to(dtype)
    out = problem.attend(kind)
    assert out.dtype == dtype
    assert_close(out.double(), problem.to(torch.float64).expected(kind), rtol=tolerance, atol=tolerance)


@every_kind
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_the_weights_written_out_are_those_that_the_result_has(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind, longest=20))
    k = problem.k.repeat_interleave(problem.q.size(1) // problem.k.size(1), 1)
    v = problem.v.repeat_interleave(problem.q.size(1) // problem.v.size(1), 1)
    queries, keys, entry = problem.q.size(2), k.size(2), attention_kind(kind)
    allowed = entry.pattern(queries, keys, causal=problem.causal, options=problem.options)
    mask, bias = combine(problem.mask, allowed), dense_bias(problem.bias, queries, keys)
    assert entry.weights is not None
    weights = entry.weights(problem.q, k, mask, bias)
    assert weights[~problem.allowed(kind)].eq(0).all()
    assert_close(weights @ v, problem.expected(kind), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 1, 5), (1, 1, 1, 5), (2, 1, 1, 5), (2, 4, 1, 5)])
def test_one_new_token_takes_a_bias_of_every_shape_though_heads_share_keys(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k, v, bias = (
        torch.randn(size, generator=generator) for size in ((2, 4, 1, 3), (2, 2, 5, 3), (2, 2, 5, 2), shape)
    )
    repeated = (x.repeat_interleave(2, dim=1) for x in (k, v))
    assert_close(attend(q, k, v, bias=bias), attend(q, *repeated, bias=bias))


def inputs(time: int = 7, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 1, time, 2, generator=generator, dtype=dtype).requires_grad_() for _ in range(3))
    return q, k, v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("kind", "biased"),
    [
        (kind, biased)
        for kind in ("block_sparse", "linear", "memory_efficient", "window")
        for biased in ("no", "dense", "distance", "per query")
        if biased == "no" or "bias" not in attention_kind(kind).lacks
    ],
)
def test_gradients(kind: str, biased: str, causal: bool) -> None:
    """By finite differences in float64, with padding and a sentence of padding only."""
    mask = torch.tensor([[True] * 5 + [False] * 2, [False] * 7])[:, None, None]
    shapes = {"no": None, "dense": (1, 1, 7, 7), "distance": (1, 1, 1, 5), "per query": (2, 1, 7, 5)}
    shape = shapes[biased]
    bias = [] if shape is None else [torch.randn(shape, dtype=torch.float64).requires_grad_()]

    def run(q: Tensor, k: Tensor, v: Tensor, *bias: Tensor) -> Tensor:
        given_bias: Any = bias[0] if bias else None
        if biased in ("distance", "per query"):
            given_bias = RelativeBias(given_bias)
        return attend(q, k, v, mask=mask, bias=given_bias, kind=kind, causal=causal, options=SMALL)

    assert torch.autograd.gradcheck(run, (*inputs(), *bias))


@every_kind
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_with_nothing_to_see_is_zero_and_nothing_is_nan(kind: str, causal: bool, dtype: torch.dtype) -> None:
    q, k, v = ((30 * x).detach().to(dtype).requires_grad_() for x in inputs(40))
    mask = torch.ones(2, 1, 1, 40, dtype=torch.bool)
    mask[0] = False
    mask[1, ..., 35:] = False
    out = attend(q, k, v, mask=mask, kind=kind, causal=causal, options=SMALL)
    assert out[0].eq(0).all()
    assert out.isfinite().all()
    assert out[1, :, :35].ne(0).any()
    out.square().sum().backward()
    for x in (q, k, v):
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert x.grad[0].eq(0).all()
    assert k.grad is not None
    assert v.grad is not None
    assert k.grad[1, :, 35:].eq(0).all()
    assert v.grad[1, :, 35:].eq(0).all()


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_causal_kinds_leak_nothing(kind: str, dtype: torch.dtype) -> None:
    """The gradient of output t with respect to keys and values after t is exactly 0, and with respect to t it isn't."""
    time = 37
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in inputs(time))
    out = attend(q, k, v, kind=kind, causal=True, options=SMALL)
    for t in (0, 3, 17, time - 1):
        gradients = torch.autograd.grad(out[:, :, t].sum(), (k, v), retain_graph=True)
        for gradient in gradients:
            assert gradient[:, :, t + 1 :].eq(0).all()
        assert gradients[1][:, :, t].ne(0).all()


@every_kind
@given(data=st.data(), dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
@settings(deadline=None, max_examples=25)
def test_what_comes_later_changes_not_one_bit(kind: str, data: st.DataObject, dtype: torch.dtype) -> None:
    """Over random shapes, masks and biases: keys and values after position t are replaced by large numbers."""
    problem = data.draw(problems(kind)).to(dtype)
    problem.causal = True
    queries, keys = problem.q.size(2), problem.k.size(2)
    if queries > keys:
        problem.q = problem.q[:, :, :keys]
        problem.bias = None
        problem.mask = None
        queries = keys
    t = data.draw(st.integers(0, queries - 1))
    before = problem.attend(kind)
    later = torch.arange(keys)[:, None] > t + keys - queries
    problem.k, problem.v = problem.k.masked_fill(later, 50.0), problem.v.masked_fill(later, -1e4)
    assert torch.equal(problem.attend(kind)[:, :, : t + 1], before[:, :, : t + 1])


def products(kind: str, time: int) -> int:
    """Count the operations of the matrix products of a forward and backward pass, on the meta device."""
    q, k, v = (torch.randn(1, 1, time, 16, device="meta").requires_grad_() for _ in range(3))
    root = math.isqrt(time)
    options = AttentionOptions.model_validate(
        {"window": {"size": 32, "globals": 2}, "block_sparse": {"local": root, "stride": root}}
    )
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v, kind=kind, causal=True, options=options).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(("kind", "growth"), [("window", 4), ("linear", 4), ("block_sparse", 8)])
def test_what_is_not_seen_is_not_computed(kind: str, growth: float) -> None:
    """From 1,024 to 4,096 positions: n, n, and n · √n instead of n²."""
    assert products(kind, 4096) == pytest.approx(growth * products(kind, 1024), rel=0.05)
    assert products(kind, 4096) < products("reference", 4096) / 8
    assert products("reference", 4096) == 16 * products("reference", 1024)


@pytest.mark.parametrize(("kind", "option"), [("window", "size"), ("block_sparse", "local")])
def test_a_window_wider_than_the_sequence_is_as_wide_as_the_sequence(kind: str, option: str) -> None:
    def operations(width: int) -> int:
        q = torch.empty(1, 1, 40, 16, device="meta")
        with FlopCounterMode(display=False) as counter:
            attend(q, q, q, kind=kind, options=AttentionOptions.model_validate({kind: {option: width}}))
        return counter.get_total_flops()

    assert operations(2**20) == operations(40)


def saved_numbers(kind: str, time: int, options: AttentionOptions = SMALL) -> int:
    """Count the numbers (four bytes each) that autograd saves for the backward pass."""
    q, k, v = (torch.randn(1, 1, time, 4).requires_grad_() for _ in range(3))
    table = torch.randn(1, 1, 1, 5).requires_grad_()
    bias = None if "bias" in attention_kind(kind).lacks else RelativeBias(table)
    attended = partial(attend, q, k, v, kind=kind, causal=True, bias=bias, options=options)
    return saved_bytes(nn.Module(), attended)[1] // 4


@pytest.mark.parametrize("kind", ["memory_efficient", "linear", "window"])
def test_what_is_kept_for_the_backward_pass_grows_linearly(kind: str) -> None:
    """Four times the length, about four times the numbers; all pairs would be sixteen times as many."""
    assert saved_numbers(kind, 384) < 4.5 * saved_numbers(kind, 96)
    assert saved_numbers("reference", 384) > 13 * saved_numbers("reference", 96)


def test_memory_efficient_keeps_its_inputs_its_result_and_one_number_a_query() -> None:
    time, d = 300, 4
    assert saved_numbers("memory_efficient", time) == 4 * time * d + time + 5  # 5 distances of the bias


def test_a_strided_pattern_keeps_n_sqrt_n() -> None:
    def options(time: int) -> AttentionOptions:
        root = math.isqrt(time)
        return AttentionOptions.model_validate({"block_sparse": {"local": root, "stride": root}})

    few, many = (saved_numbers("block_sparse", time, options(time)) for time in (256, 1024))
    assert many < 9 * few  # 4 · 2 in theory


@pytest.mark.parametrize("kind", [name for name in KINDS if "dropout" not in attention_kind(name).lacks])
def test_dropout_drops_weights_and_scales_the_rest(kind: str) -> None:
    """With the identity as values the result is the weights; the backward pass must drop the same ones."""
    torch.manual_seed(0)
    time, p = 48, 0.25
    q, k = torch.randn(2, 2, time, 8), torch.randn(2, 2, time, 8)
    v = torch.eye(time).expand(2, 2, time, time).clone().requires_grad_()
    still = attend(q, k, v, kind=kind, options=SMALL).detach()
    out = attend(q, k, v, kind=kind, options=SMALL, dropout=p)
    kept = out.detach() != 0
    assert_close(out, kept * still / (1 - p), rtol=1e-4, atol=1e-6)
    count = int((still != 0).sum())
    assert abs(int(kept.sum()) - count * (1 - p)) < 5 * math.sqrt(count * p * (1 - p))
    assert not torch.equal(out, attend(q, k, v, kind=kind, options=SMALL, dropout=p))
    (gradient,) = torch.autograd.grad(out.sum(), v)
    assert_close(gradient[..., 0], out.detach().sum(2), rtol=1e-4, atol=1e-5)


def test_memory_efficient_dropout_is_the_same_in_both_passes() -> None:
    """Its derivative by finite differences, with the same seed for every evaluation."""

    def run(*qkv: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(*qkv, kind="memory_efficient", options=SMALL, dropout=0.4)

    assert torch.autograd.gradcheck(run, inputs())


@pytest.mark.parametrize("kind", KINDS)
def test_keys_shared_by_heads_equal_keys_repeated(kind: str) -> None:
    q, k, v = torch.randn(2, 6, 9, 4), torch.randn(2, 2, 9, 4), torch.randn(2, 2, 9, 3)
    repeated = [torch.cat([x[:, h : h + 1].expand(-1, 3, -1, -1) for h in range(2)], 1) for x in (k, v)]
    for queries in (9, 1):
        for causal in (False, True):
            problem = {"kind": kind, "causal": causal, "options": SMALL}
            part = q[:, :, -queries:]
            assert_close(attend(part, k, v, **problem), attend(part, *repeated, **problem))


def test_shared_keys_with_a_bias_and_one_query() -> None:
    q, k, v = torch.randn(2, 4, 1, 4), torch.randn(2, 2, 9, 4), torch.randn(2, 2, 9, 3)
    bias = RelativeBias(torch.randn(1, 4, 1, 7))
    problem = Problem(q, k, v, None, bias, True, SMALL)
    assert_close(problem.attend("fused"), problem.expected("fused"))


def test_linear_attention_refuses_what_it_has_no_meaning_for() -> None:
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"expected a mask over keys .* for linear attention, found one over pairs"):
        attend(q, k, v, kind="linear", mask=torch.ones(7, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match="linear attention takes no bias: there are no scores"):
        attend(q, k, v, kind="linear", bias=torch.zeros(7, 7))


def test_the_recurrence_of_linear_attention_has_a_state_of_constant_size() -> None:
    advance = attention_kind("linear").advance
    assert advance is not None
    q, k, v = (x.detach() for x in inputs(50))
    whole = attend(q, k, v, kind="linear", causal=True, options=SMALL)
    state, sizes, parts = RecurrentCache(), set(), []
    for t in range(50):
        step = [x[:, :, t : t + 1] for x in (q, k, v)]
        parts.append(advance(*step, state, None, SMALL))
        assert state.state is not None
        sizes.add(state.state.numel())
    assert state.length == 50
    assert sizes == {2 * 1 * 2 * 3}
    assert_close(torch.cat(parts, 2), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["fused", "memory_efficient"])
def test_long_causal_attention_keeps_no_matrix_of_pairs(kind: str) -> None:
    length = 300
    inputs = [torch.randn(2, 3, length, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    kept: list[int] = []

    def pack(x: Tensor) -> Tensor:
        kept.append(x.untyped_storage().nbytes() // x.element_size())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = attend(inputs[0], inputs[1], inputs[2], kind=kind, causal=True)
    assert max(kept) == 2 * 3 * length * 8 < length * length
    expected = attend(inputs[0], inputs[1], inputs[2], kind="reference", causal=True)
    assert_close(out, expected)
    weights = torch.randn_like(out)
    found = torch.autograd.grad(out, inputs, weights)
    assert_close(found, torch.autograd.grad(expected, inputs, weights))

"""Attention kinds `reference` and `fused` against the paper's formula in float64 NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.errors import ConfigError
from headwise.nn import attention
from headwise.nn.attention import attend, attention_weights, register


def numpy_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, bias: np.ndarray | None
) -> np.ndarray:
    """softmax(Q Kᵀ / √d_k + bias) V, row by row, over the allowed keys of each row; zeros for rows without any."""
    batch, heads, queries, d_k = q.shape
    keys = k.shape[2]
    allowed = np.broadcast_to(True if mask is None else mask, (batch, heads, queries, keys))
    added = np.broadcast_to(0.0 if bias is None else bias, (batch, heads, queries, keys))
    out = np.zeros((batch, heads, queries, v.shape[3]))
    for b, h, i in np.ndindex(batch, heads, queries):
        seen = np.flatnonzero(allowed[b, h, i])
        if len(seen):
            scores = k[b, h, seen] @ q[b, h, i] / math.sqrt(d_k) + added[b, h, i, seen]
            weights = np.exp(scores - scores.max())
            out[b, h, i] = weights / weights.sum() @ v[b, h, seen]
    return out


@dataclass
class Case:
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    bias: Tensor | None

    def to(self, dtype: torch.dtype) -> Case:
        bias = None if self.bias is None else self.bias.to(dtype)
        return Case(self.q.to(dtype), self.k.to(dtype), self.v.to(dtype), self.mask, bias)

    def attend(self, kind: str) -> Tensor:
        return attend(self.q, self.k, self.v, mask=self.mask, bias=self.bias, kind=kind)

    def expected(self) -> Tensor:
        parts = [None if x is None else x.double().numpy() for x in (self.q, self.k, self.v, self.bias)]
        q, k, v, bias = parts
        assert q is not None
        assert k is not None
        assert v is not None
        return torch.from_numpy(numpy_attention(q, k, v, None if self.mask is None else self.mask.numpy(), bias))


@st.composite
def cases(draw: st.DrawFn, keys: Sequence[int] = range(1, 8)) -> Case:
    """Random tensors in float64, with masks and biases of every broadcastable shape, and rows without allowed keys."""
    number = st.integers(1, 4)
    batch, heads, queries, d_k, d_v = (draw(number) for _ in range(5))
    n_keys = draw(st.sampled_from(keys))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def broadcastable() -> tuple[int, ...]:
        full = (batch, heads, queries, n_keys)
        shape = tuple(size if draw(st.booleans()) else 1 for size in full)
        leading = draw(st.integers(0, 2))
        return shape[leading:] if set(shape[:leading]) <= {1} else shape

    mask = bias = None
    if draw(st.booleans()):
        share = draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
        mask = torch.rand(broadcastable(), generator=generator) < share
    if draw(st.booleans()):
        bias = 2 * normal(*broadcastable())
    sharpness = draw(st.sampled_from([0.1, 1.0, 5.0]))
    return Case(
        sharpness * normal(batch, heads, queries, d_k),
        normal(batch, heads, n_keys, d_k),
        normal(batch, heads, n_keys, d_v),
        mask,
        bias,
    )


# `fused` has two paths on a CPU: matrix products for short sequences, torch's kernel for long ones (always with 0).
PATHS = {"reference": ("reference", 128), "fused-short": ("fused", 128), "fused-long": ("fused", 0)}
every_path = pytest.mark.parametrize("path", PATHS)
SETTINGS = settings(deadline=None, max_examples=60)


@contextmanager
def taking(path: str) -> Iterator[str]:
    """Context manager that forces a path; yields the kind's name."""
    name, limit = PATHS[path]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "_FUSED_FROM_KEYS_ON_CPU", limit)
        yield name


@pytest.fixture(params=PATHS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with taking(request.param) as name:
        yield name


class TestAgainstTheFormula:
    @every_path
    @given(case=cases())
    @SETTINGS
    def test_float64(self, path: str, case: Case) -> None:
        with taking(path) as name:
            torch.testing.assert_close(case.attend(name), case.expected(), rtol=1e-12, atol=1e-12)

    @every_path
    @given(case=cases())
    @SETTINGS
    def test_float32(self, path: str, case: Case) -> None:
        with taking(path) as name:
            case = case.to(torch.float32)
            out = case.attend(name)
            assert out.dtype == torch.float32
            torch.testing.assert_close(out.double(), case.expected(), rtol=1e-5, atol=1e-5)

    @every_path
    @given(case=cases())
    @SETTINGS
    def test_bfloat16(self, path: str, case: Case) -> None:
        """The tolerance follows from bfloat16's 8 significant bits.

        Every score, its exponential, every weight, and the result have a relative rounding error of up to 2^-9. A
        score's error is proportional to the score: weights have errors of up to (3 max|score| + 4) · 2^-9, and the
        result twice that times the largest value, because the weights are normalized by their own sum.
        """
        with taking(path) as name:
            case = case.to(torch.bfloat16)
            out = case.attend(name)
            assert out.dtype == torch.bfloat16
            scores = (case.q.abs().double() @ case.k.abs().double().transpose(-2, -1)).max().item()
            scores = scores / math.sqrt(case.q.size(-1)) + (0 if case.bias is None else case.bias.abs().max().item())
            allowance = 2 * (3 * scores + 4) * 2**-9 * case.v.abs().max().item()
            torch.testing.assert_close(out.double(), case.expected(), rtol=0, atol=allowance)

    @given(case=cases(keys=[127, 128, 129, 160]))
    @settings(deadline=None, max_examples=20)
    def test_fused_on_both_sides_of_its_switch(self, case: Case) -> None:
        case = case.to(torch.float32)
        torch.testing.assert_close(case.attend("fused").double(), case.expected(), rtol=1e-5, atol=1e-5)

    @given(case=cases())
    @SETTINGS
    def test_weights_are_a_distribution_over_what_may_be_seen(self, case: Case) -> None:
        weights = attention_weights(case.q, case.k, case.mask, case.bias)
        allowed = torch.ones_like(weights, dtype=torch.bool)
        if case.mask is not None:
            allowed = allowed & case.mask
        assert weights[~allowed].eq(0).all()
        assert weights.ge(0).all()
        torch.testing.assert_close(weights.sum(-1), allowed.any(-1).double())


def tensors(keys: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return float64 q, k, v and bias that require gradients, and a mask whose first row is empty."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(2, 1, 3, 2), (2, 1, keys, 2), (2, 1, keys, 3), (1, 1, 3, keys)]
    q, k, v, bias = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes)
    mask = torch.rand(2, 1, 3, keys, generator=generator) < 0.7
    mask[0, :, 0] = False
    mask[1, :, 0] = True
    return q, k, v, bias, mask


@pytest.mark.parametrize("keys", [5, 130])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", ["reference", "fused"])
def test_gradients(name: str, biased: bool, masked: bool, keys: int) -> None:
    """Gradients equal finite differences in float64; 130 keys take torch's kernel."""
    q, k, v, bias, mask = tensors(keys)

    def run(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        return attend(q, k, v, mask=mask if masked else None, bias=bias, kind=name)

    inputs = (q, k, v, bias) if biased else (q, k, v)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=keys > 100)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_row_with_nothing_to_see_is_zero_and_gets_no_gradient(kind: str, dtype: torch.dtype) -> None:
    q, k, v, _, mask = tensors(5)
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (q, k, v))
    out = attend(q, k, v, mask=mask, kind=kind)
    assert out[0, :, 0].eq(0).all()
    out.square().sum().backward()
    assert q.grad is not None
    assert q.grad[0, :, 0].eq(0).all()
    assert q.grad[1].ne(0).any()
    for x in (q, k, v):
        assert x.grad is not None
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_masked_has_no_influence_at_all(kind: str, dtype: torch.dtype) -> None:
    """The gradient of masked keys and values is exactly 0, and their magnitude doesn't change any bit."""
    q, k, v, _, _ = tensors(6)
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (q, k, v))
    mask = torch.tensor([True, True, False, True, False, True])[None, None, None]
    out = attend(q, k, v, mask=mask, kind=kind)
    out.sum().backward()
    assert k.grad is not None
    assert v.grad is not None
    assert k.grad[:, :, [2, 4]].eq(0).all()
    assert v.grad[:, :, [2, 4]].eq(0).all()
    hidden = ~mask.transpose(-2, -1)
    other = attend(q, k.masked_fill(hidden, 1e4), v.masked_fill(hidden, -1e4), mask=mask, kind=kind)
    assert torch.equal(out, other)


def test_a_bias_kept_in_float32_follows_the_activations(kind: str) -> None:
    q, k, v, bias, mask = (x.detach() for x in tensors(5))
    half = [x.bfloat16() for x in (q, k, v)]
    out = attend(*half, mask=mask, bias=bias.float(), kind=kind)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, attend(*half, mask=mask, bias=bias.bfloat16(), kind=kind))


def test_dropout_drops_weights_and_scales_the_rest(kind: str) -> None:
    """With the identity as values the result is the weights, each of which is dropped or divided by 1 - p."""
    torch.manual_seed(0)
    q, k = torch.randn(4, 2, 50, 8), torch.randn(4, 2, 40, 8)
    v = torch.eye(40).expand(4, 2, 40, 40)
    p = 0.25
    weights = attention_weights(q, k)
    out = attend(q, k, v, kind=kind, dropout=p)
    kept = out != 0
    torch.testing.assert_close(out, kept * weights / (1 - p), rtol=1e-4, atol=1e-6)
    count = kept.numel()
    assert abs(kept.sum().item() - count * (1 - p)) < 5 * math.sqrt(count * p * (1 - p))
    assert not torch.equal(out, attend(q, k, v, kind=kind, dropout=p))
    torch.testing.assert_close(attend(q, k, v, kind=kind), weights, rtol=1e-4, atol=1e-6)


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    x = torch.zeros(1, 1, 1, 1)
    with pytest.raises(ConfigError, match=r"model\.attention: expected one of .*fused.*reference.*found 'flashy'"):
        attend(x, x, x, kind="flashy")


def test_a_kind_registers_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_KINDS", dict(attention._KINDS))

    @register("first")
    def first(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float) -> Tensor:
        return v[:, :, :1].expand(-1, -1, q.size(2), -1)

    v = torch.randn(1, 1, 4, 2)
    assert torch.equal(attend(v, v, v, kind="first"), v[:, :, :1].expand(-1, -1, 4, -1))
    register("first")(lambda q, k, v, mask, bias, dropout: v + q)  # as a notebook's cell that runs again
    assert torch.equal(attend(v, v, v, kind="first"), 2 * v)
    with pytest.raises(ConfigError, match=r"kind fused: expected a new name, found one that headwise\.nn\.attention"):
        register("fused")(first)
    with pytest.raises(ConfigError, match=r"kind second: expected lacks to name some of cross, .*, found 'corss'"):
        register("second", lacks={"corss": "a typing error"})(first)

"""Dropout against its definition: each element is zero with probability p, and divided by 1 - p otherwise."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.nn.dropout import dropout, dropout_add

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
LEVELS = 2**15


def rate(p: float) -> float:
    """Return the probability that 15 random bits can express: the multiple of 2^-15 nearest to p."""
    return round(p * LEVELS) / LEVELS


@pytest.mark.parametrize("p", [0.0001, 0.1, 0.3, 0.5, 0.9])
@dtypes
def test_the_share_of_zeros_and_the_mean(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    n = 1_000_000
    out = dropout(torch.ones(n, dtype=dtype), p, training=True)
    assert out.dtype == dtype
    dropped = (out == 0).sum().item()
    # Five standard deviations of the binomial: fails once in two million runs, were it not seeded.
    assert abs(dropped - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + n * 2**-16
    kept = out[out != 0]
    assert (kept == torch.tensor(1 / (1 - rate(p)), dtype=dtype)).all()
    rounding = 0 if dtype == torch.float32 else 2**-8
    deviation = math.sqrt(p / (1 - p) / n)
    assert out.double().mean().item() == pytest.approx(1.0, abs=5 * deviation + rounding + 1e-6)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.25, 1e-5, 2**-15, 0.99999])
def test_the_scale_makes_the_expectation_exact(p: float) -> None:
    """The rate that is drawn is the nearest multiple of 2^-15, and the scale belongs to that rate, not to p.

    So E[out] = x without any error; a rate of 1, where nothing would survive, is not reached.
    """
    torch.manual_seed(0)
    out = dropout(torch.ones(400_000), p, training=True)
    drawn = min(rate(p), 1 - 1 / LEVELS)
    assert abs(drawn - p) <= 2**-15
    assert out.max().item() == pytest.approx(1 / (1 - drawn), rel=1e-6)


def test_neighbors_are_independent() -> None:
    """Four elements share one 64-bit draw; dropping one must be independent of the next three."""
    torch.manual_seed(0)
    p, n = 0.3, 400_000
    zero = dropout(torch.ones(n), p, training=True) == 0
    for distance in (1, 2, 3, 4, 8):
        both = (zero[distance:] & zero[:-distance]).double().mean().item()
        assert both == pytest.approx(p * p, abs=5 * math.sqrt(p * p * (1 - p * p) / n))


@dtypes
def test_the_same_elements_are_dropped_in_the_backward_pass(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(37, 53).to(dtype).requires_grad_()
    out = dropout(x, 0.3, training=True)
    gradient = torch.randn(37, 53).to(dtype)
    out.backward(gradient)
    assert x.grad is not None
    scale = 1 / (1 - rate(0.3))
    kept = out != 0
    torch.testing.assert_close(
        out, torch.where(kept, x.detach() * scale, 0), rtol=1e-2 if dtype.itemsize == 2 else 1e-6, atol=0
    )
    assert torch.equal(x.grad == 0, ~kept)
    torch.testing.assert_close(x.grad[kept], gradient[kept] * scale, rtol=1e-2 if dtype.itemsize == 2 else 1e-6, atol=0)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.3, False), (0.0, False)])
def test_without_a_rate_or_outside_training_nothing_happens(p: float, training: bool) -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    state = torch.get_rng_state()
    assert dropout(x, p, training) is x
    assert torch.equal(dropout_add(x, y, p, training), x + y)
    assert torch.equal(torch.get_rng_state(), state)


@dtypes
def test_the_generators_state_decides(dtype: torch.dtype) -> None:
    x = torch.randn(50, 7).to(dtype)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = dropout(x, 0.4, True), dropout(x, 0.4, True)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x, 0.4, True), first)
    assert torch.equal(dropout(x, 0.4, True), second)


def layouts(x: Tensor) -> dict[str, Tensor]:
    """Return x (4, 6) in memory layouts that aren't contiguous rows."""
    wide = torch.zeros(4, 12, dtype=x.dtype)
    wide[:, ::2] = x
    return {
        "transposed": x.t().contiguous().t(),
        "strided": wide[:, ::2],
        "expanded": x[:1].expand(4, 6),
        "offset": torch.cat([x, x])[4:],
    }


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded", "offset"])
@dtypes
def test_the_memory_layout_does_not_matter(layout: str, dtype: torch.dtype) -> None:
    x = layouts(torch.randn(4, 6).to(dtype))[layout]
    plain = x.clone(memory_format=torch.contiguous_format)
    gradient = layouts(torch.randn(4, 6).to(dtype))[layout]
    results = []
    for version in (x, plain):
        version = version.detach().requires_grad_()
        torch.manual_seed(1)
        out = dropout(version, 0.4, True)
        out.backward(gradient)
        assert version.grad is not None
        results.append((out.detach(), version.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert torch.equal(x, plain)  # the input is left as it was


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=4), st.floats(0.01, 0.99))
def test_every_shape(shape: list[int], p: float) -> None:
    x = torch.ones(shape)
    out = dropout(x, p, True)
    assert out.shape == x.shape
    assert ((out == 0) | (out == out.max() if out.numel() else True)).all()


@dtypes
def test_dropout_add_is_the_sum_under_the_same_draw(dtype: torch.dtype) -> None:
    x, residual = torch.randn(9, 33).to(dtype), torch.randn(9, 33).to(dtype)
    gradient = torch.randn(9, 33).to(dtype)
    results = []
    for fused in (True, False):
        torch.manual_seed(2)
        a, b = x.clone().requires_grad_(), residual.clone().requires_grad_()
        out = dropout_add(a, b, 0.3, True) if fused else b + dropout(a, 0.3, True)
        out.backward(gradient)
        assert a.grad is not None
        assert b.grad is not None
        results.append((out.detach(), a.grad, b.grad))
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-6  # the product is rounded once less when it is fused
    torch.testing.assert_close(results[0][0], results[1][0], rtol=tolerance, atol=tolerance)
    assert torch.equal(results[0][1], results[1][1])
    assert torch.equal(results[0][2], gradient)


def test_other_dtypes_take_torchs_own() -> None:
    x, y = torch.ones(1000, dtype=torch.float64), torch.full((1000,), 2.0, dtype=torch.float64)
    torch.manual_seed(3)
    out = dropout(x, 0.3, True)
    torch.manual_seed(3)
    assert torch.equal(out, torch.nn.functional.dropout(x, 0.3))
    torch.manual_seed(3)
    assert torch.equal(dropout_add(x, y, 0.3, True), y + out)


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    x = torch.randn(5, requires_grad=True)
    (first,) = torch.autograd.grad(dropout(x, 0.5, True).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()

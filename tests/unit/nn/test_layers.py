"""Linear maps, normalization, feed-forward and residual connections against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.errors import ConfigError
from headwise.nn.layers import FeedForward, LayerNorm, Residual, RMSNorm
from headwise.nn.linear import Linear


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_linear_starts_as_glorot_and_bengio_have_it() -> None:
    layer = Linear(300, 100)
    bound = math.sqrt(6 / (300 + 100))
    assert layer.weight.abs().max().item() <= bound
    assert layer.weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    assert layer.bias.eq(0).all()


@pytest.mark.parametrize("layer", [Linear(6, 6), Linear(6, 6, bias=False), LayerNorm(6)])
def test_the_inputs_dtype_decides_the_arithmetic(layer: nn.Module) -> None:
    x = torch.randn(5, 6)
    plain = layer(x)
    assert plain.dtype == torch.float32
    rounded = layer(x.bfloat16())
    assert rounded.dtype == torch.bfloat16
    assert_close(rounded.float(), plain, rtol=0.03, atol=0.03)
    rounded.sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.dtype == parameter.grad.dtype == torch.float32


def test_layer_norm_divides_by_the_root_of_variance_plus_epsilon() -> None:
    layer = LayerNorm(8)
    with torch.no_grad():
        layer.weight.normal_()
        layer.bias.normal_()
    x = 1e-3 * torch.randn(4, 8)  # so small that ε inside the root matters
    variance = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)
    expected = (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5) * layer.weight + layer.bias
    assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("own", "torchs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_normalization_may_have_no_parameters_as_in_torch(own: type[nn.Module], torchs: type) -> None:
    x = torch.randn(4, 8)
    assert_close(own(8, elementwise_affine=False)(x), torchs(8, elementwise_affine=False)(x))
    assert_close(LayerNorm(8, bias=False)(x), nn.LayerNorm(8, bias=False)(x))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("gelu", lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_feed_forward(name: str, function: object) -> None:
    assert callable(function)
    layer = FeedForward(6, 11, name, drop=0.5).eval()
    with torch.no_grad():
        layer.w1.bias.normal_()
        layer.w2.bias.normal_()
    x = torch.randn(2, 3, 6)
    hidden = function(x @ layer.w1.weight.t() + layer.w1.bias)
    assert_close(layer(x), hidden @ layer.w2.weight.t() + layer.w2.bias, rtol=1e-5, atol=1e-5)
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def sublayer(x: Tensor) -> Tensor:
    return x.square() + 1


def connected(around: Residual, x: Tensor) -> Tensor:
    return around.post_norm(around.add(x, sublayer(around.pre_norm(x))))


def test_the_order_of_norm_and_sum() -> None:
    x = torch.randn(2, 3, 6)
    normalized = nn.functional.layer_norm
    assert_close(connected(Residual(6, "post", 0.0), x), normalized(x + sublayer(x), (6,)))
    assert_close(connected(Residual(6, "pre", 0.0), x), x + sublayer(normalized(x, (6,))))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_acts_on_the_sublayer_and_not_on_the_residual(norm: str) -> None:
    layer = Residual(6, norm, 0.999)
    x = torch.randn(50, 6)
    out = connected(layer, x)
    untouched = x if norm == "pre" else nn.functional.layer_norm(x, (6,))
    same = out.isclose(untouched, atol=1e-6).all(-1)
    assert same.float().mean().item() > 0.9  # in nearly every row the whole sub-layer was dropped, and x is unchanged
    layer.eval()
    assert not connected(layer, x).isclose(untouched).all(-1).any()


def test_unknown_names_fail_when_the_layer_is_built() -> None:
    with pytest.raises(ConfigError, match="norm: expected post or pre, found 'Pre'"):
        Residual(6, "Pre", 0.0)
    with pytest.raises(ConfigError, match="activation: expected one of relu, gelu, gelu_tanh, silu, found 'tanh'"):
        FeedForward(6, 11, "tanh", 0.0)

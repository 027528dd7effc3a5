"""The convolutional model against its formulas, written with torch's own conv1d, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from headwise.config import Config, ConvolutionalConfig, ModelConfig
from headwise.errors import ConfigError
from headwise.models.convolutional import (
    ConvolutionalSeq2Seq,
    GatedConvolution,
    NormalizedLinear,
    scale_gradient,
)
from headwise.models.counting import parameter_count
from headwise.nn.recording import recording

V, E, C = 19, 8, 12  # vocabulary, width of embeddings, width of blocks


def small(layers: tuple[int, int] = (2, 3), **changes: Any) -> ConvolutionalSeq2Seq:
    shape = {
        "encoder_layers": layers[0],
        "decoder_layers": layers[1],
        "d_model": E,
        "heads": 2,
        "max_length": 20,
    }
    torch.manual_seed(0)
    config = ModelConfig.model_validate({**shape, "convolutional": {"channels": C, "kernel": 3}, **changes})
    model = ConvolutionalSeq2Seq(config, V, V).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "original0" in name:
                parameter.normal_(std=0.7)
            elif "embedding" in name or "positions" in name:
                parameter *= 8
    return model


def weight(model: torch.nn.Module, name: str) -> Tensor:
    """g v / ‖v‖ for each output."""
    g, v = (model.get_parameter(f"{name}.parametrizations.weight.original{k}") for k in (0, 1))
    return g * v / v.square().sum(1, keepdim=True).sqrt()


def linear(model: torch.nn.Module, name: str, x: Tensor) -> Tensor:
    return x @ weight(model, name).T + model.get_parameter(f"{name}.bias")


def block(model: torch.nn.Module, name: str, x: Tensor, left: int, right: int) -> Tensor:
    """GLU(conv(x)) by conv1d for one sentence x (time, channels)."""
    taps = weight(model, f"{name}.map").unflatten(1, (-1, x.size(1))).transpose(1, 2)  # (2 channels, channels, kernel)
    padded = functional.pad(x.T[None], (left, right))
    a, b = functional.conv1d(padded, taps, model.get_parameter(f"{name}.map.bias"))[0].T.chunk(2, dim=1)
    return a * torch.sigmoid(b)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_block_is_a_convolution_and_its_gate(kernel: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"block": GatedConvolution(C, kernel, 0.9)}).double()
    x = torch.randn(7, C).double()
    found = model["block"](x[None])[0]
    assert found.shape == (7 - kernel + 1, C)
    assert_close(found, block(model, "block", x, 0, 0))


def test_the_model_equals_its_formulas() -> None:
    """Gehring et al. 2017, section 3, one sentence at a time without any padding; both the output and the weights."""
    model = small().double()
    model.compute_dtype = torch.float64
    lengths = [5, 2, 1]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    source, target = torch.randint(4, V, (3, 5)) * mask, torch.randint(4, V, (3, 6))
    with recording(model) as records:
        hidden = model(source, mask, target)
    half = math.sqrt(0.5)
    words = model.source_embedding.weight
    for row, m in enumerate(lengths):
        e = words[source[row, :m]] + model.get_parameter("source_positions.table")[:m]
        x = linear(model, "encoder_input", e)
        for number in range(2):
            x = (block(model, f"encoder.{number}", x, 1, 1) + x) * half
        z = linear(model, "encoder_output", x)
        g = words[target[row]] + model.get_parameter("target_positions.table")[:6]
        x = linear(model, "decoder_input", g)
        for number in range(3):
            name = f"decoder.{number}"
            h = block(model, f"{name}.convolution", x, 2, 0)
            d = (linear(model, f"{name}.query", h) + g) * half
            a = (d @ z.T).softmax(-1)
            c = m * math.sqrt(1 / m) * (a @ ((z + e) * half))
            h = (h + linear(model, f"{name}.output", c)) * half
            x = (h + x) * half
            assert_close(records.weights[f"{name}.cross_attention"][0][row, 0, :, :m], a)
        assert_close(hidden[row], linear(model, "decoder_output", x))


def test_an_output_sees_the_window_of_its_layers() -> None:
    """Two layers of width 3 see the position itself and four before it, by the gradient of each."""
    time = 9
    model = small((1, 2), share_embeddings="none")
    words = torch.nn.Embedding(time, E)
    model.target_embedding = words
    source = torch.tensor([[5, 6]])
    hidden = model(source, torch.ones_like(source, dtype=torch.bool), torch.arange(time)[None])
    for t in range(time):
        (gradient,) = torch.autograd.grad(hidden[0, t].sum(), words.weight, retain_graph=True)
        seen = gradient.abs().sum(-1).nonzero().squeeze(1).tolist()
        assert seen == list(range(max(0, t - 4), t + 1))


def test_a_state_holds_a_window_whatever_the_length() -> None:
    model = small()
    source = torch.tensor([[5, 6, 7], [8, 9, 3]])
    state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)), beams=2)
    for _ in range(6):
        _, state = model.step(torch.tensor([4, 5, 6, 7]), state)
        assert [tuple(window.shape) for window in state.windows] == [(4, 2, C)] * 3


def test_the_encoder_s_gradient_is_divided_by_the_attentions() -> None:
    x = torch.randn(3, requires_grad=True)
    y = scale_gradient(x, 1 / 4)
    assert torch.equal(x, y)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.25] * 3


def test_weights_start_with_the_paper_s_variance() -> None:
    """Section 3.5: N(0, √(1/n)), before a gate N(0, √(4p/n)), embeddings N(0, 0.1); normalizing changes nothing yet."""
    torch.manual_seed(0)
    plain, gated = NormalizedLinear(400, 300), GatedConvolution(100, 3, keep=0.8)
    assert plain.weight.std().item() == pytest.approx((1 / 400) ** 0.5, rel=0.02)
    assert gated.map.weight.std().item() == pytest.approx((4 * 0.8 / 300) ** 0.5, rel=0.02)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=64, heads=4, max_length=100)
    model = ConvolutionalSeq2Seq(config, 1000, 1000)
    assert model.source_embedding.weight.std().item() == pytest.approx(0.1, rel=0.02)
    assert model.get_parameter("source_positions.table").std().item() == pytest.approx(0.1, rel=0.05)


def test_parameters_by_formula() -> None:
    def map_(inputs: int, outputs: int) -> int:
        return outputs * (inputs + 2)  # v, g and the bias

    encoder = map_(E, C) + 2 * map_(3 * C, 2 * C) + map_(C, E)
    decoder = map_(E, C) + 3 * (map_(3 * C, 2 * C) + map_(C, E) + map_(E, C)) + map_(C, E)
    assert parameter_count(small()) == V * E + 2 * 20 * E + encoder + decoder


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(ValidationError, match="kernel must be odd, found 4"):
        ConvolutionalConfig(kernel=4)
    with pytest.raises(ConfigError, match=r"model\.convolutional: kernel must be odd, found 4"):
        Config.from_tree({"model": {"convolutional": {"kernel": 4}}})

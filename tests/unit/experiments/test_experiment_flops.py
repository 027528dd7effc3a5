"""Operations by formula against torch's counts, and measurements of single layers against their definitions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch.backends import mkldnn
from torch.utils.flop_counter import FlopCounterMode

from headwise.config import Config, ModelConfig
from headwise.experiments.complexity import (
    KINDS,
    Convolutional,
    Recurrent,
    SelfAttention,
    counted,
    longest_chain,
)
from headwise.experiments.table1 import measure_paths
from headwise.models.build import ARCHITECTURES, build_model
from headwise.models.counting import forward_flops, training_flops
from headwise.nn.memory import saved_bytes
from paths import CONFIGS

SHIPPED = sorted(CONFIGS.glob("multi30k*.yaml"))


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # emitted whenever oneDNN is disabled
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_formula_counts_what_torch_counts(file: Path) -> None:
    """A forward pass over two sentence pairs, without oneDNN, because operations in its fused LSTM aren't counted."""
    config = Config.load(file).model
    model = build_model(config, 23, 23).eval()
    source, target = torch.randint(4, 23, (2, 7)), torch.randint(4, 23, (2, 5))
    mask = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad(), mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        model.project(model(source, mask, target))
    assert counter.get_total_flops() == 2 * forward_flops(config, 23, 7, 5)


def test_there_is_a_configuration_of_every_architecture() -> None:
    assert {Config.load(file).model.architecture for file in SHIPPED} == set(ARCHITECTURES)


def test_training_costs_three_forward_passes() -> None:
    config = Config(model=ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, heads=2))
    config.subwords.size = 100
    assert training_flops(config, 50, 10) == 5 * 3 * forward_flops(config.model, 100, 10, 10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(64, 16), (128, 32)])
def test_a_layers_formula_is_what_it_computes(kind: str, n: int, d: int) -> None:
    blocks = 2 if kind == "restricted" else 1  # a query computes scores of 62 keys, and 31 are unmasked
    assert counted(kind, n, d) == blocks * KINDS[kind].flops(n, d)


def test_kept_memory_is_counted_in_bytes() -> None:
    """An exponential saves its result, in float32: 4 bytes per element, each storage counted once."""

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            return y * y

    twice, x = Twice(), torch.zeros(10, 10, requires_grad=True)
    output, size = saved_bytes(twice, lambda: twice(x))
    assert size == 400
    assert torch.equal(output, torch.ones(10, 10))


def test_parameters_are_not_counted_as_kept() -> None:
    """A linear map saves its input and its weights for the backward pass."""
    layer, x = torch.nn.Linear(8, 4, bias=False), torch.zeros(2, 8, requires_grad=True)
    assert saved_bytes(layer, lambda: layer(x))[1] == 4 * 2 * 8


def test_attention_keeps_all_pairs_and_a_window_does_not() -> None:
    def growth(kind: str) -> float:
        layer = SelfAttention(16, kind, 4)
        inputs = (torch.randn(1, n, 16, requires_grad=True) for n in (256, 512))
        short, long = (saved_bytes(layer, partial(layer, x))[1] for x in inputs)
        return long / short

    assert growth("reference") > 3
    assert growth("window") < 2.2


def test_a_chain_counts_operations_that_wait() -> None:
    x = torch.zeros(3, requires_grad=True)
    assert longest_chain(x + 1) == 2  # the addition, and the node that accumulates the gradient
    assert longest_chain((x + 1) + ((x + 1) + 1)) == 4
    lengths = [longest_chain(Recurrent(8, unrolled=True)(torch.zeros(1, n, 8, requires_grad=True))) for n in (4, 5, 6)]
    assert lengths[1] - lengths[0] == lengths[2] - lengths[1] > 0


def test_paths_are_those_of_table_1() -> None:
    lengths = [8, 16, 32]
    found = measure_paths(seed=1, lengths=lengths, radius=4)["layers"]
    assert found["self-attention"] == found["recurrent"] == [1, 1, 1]
    assert found["convolutional"] == [2, 3, 4]  # the smallest L with 3^L >= n
    assert found["convolutional, contiguous"] == [-(-(n - 1) // 2) for n in lengths]  # two positions per layer
    assert found["restricted"] == [-(-(n - 1) // 3) for n in lengths]  # three positions per layer


def test_the_unrolled_recurrence_is_the_fused_one() -> None:
    torch.manual_seed(0)
    layer, x = Recurrent(8), torch.randn(2, 5, 8)
    fused = layer(x)
    layer.unrolled = True
    torch.testing.assert_close(layer(x), fused)


def test_convolutions_look_back_only() -> None:
    layer, x = Convolutional(4, dilation=2), torch.randn(1, 9, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x)[0, 6].sum(), x)
    assert gradient[0].abs().sum(-1).gt(0).tolist() == [place in (2, 4, 6) for place in range(9)]

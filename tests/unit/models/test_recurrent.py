"""Recurrent models: parameter counts by formula, combinations that are rejected, decoding by steps and at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from headwise.config import Config, ModelConfig, RecurrentConfig
from headwise.errors import ConfigError
from headwise.models.build import build_model
from headwise.models.counting import parameter_count
from headwise.nn.recurrent import Recurrence, reverse

V, E, H = 50, 16, 24  # vocabulary, width of embeddings, width of states


def count(layers: int, **options: Any) -> int:
    shape = {"architecture": "recurrent", "encoder_layers": layers, "decoder_layers": layers, "d_model": E}
    config = ModelConfig.model_validate({**shape, "heads": 2, "recurrent": {"size": H, **options}})
    return parameter_count(build_model(config, V, V))


def layer(gates: int, inputs: int) -> int:
    """Weights of input and state, and two biases, as torch has them."""
    return gates * H * (inputs + H + 2)


def test_parameters_of_bahdanau_s_model() -> None:
    encoder = 2 * layer(3, E)
    attention = H * H + 2 * H * H + H  # W, U, v
    bridge = H * H + H
    assert count(1) == V * E + encoder + bridge + attention + layer(3, E + 2 * H) + (H + E + 2 * H + 1) * 2 * E


def test_parameters_of_luong_s_model() -> None:
    options = {"attention": "multiplicative", "query": "current", "readout": "tanh", "input_feeding": True}
    encoder = layer(4, E) + layer(4, H)
    decoder = layer(4, E + E) + layer(4, H)
    found = count(2, cell="lstm", reading="forward", **options)
    assert found == V * E + encoder + decoder + H * H + 2 * H * E


def test_parameters_of_gnmt() -> None:
    encoder = 2 * layer(4, E) + layer(4, 2 * H) + 2 * layer(4, H)
    decoder = layer(4, E + H) + 3 * layer(4, H + H)
    bridge = 2 * (H * H + H)
    attention = 2 * H * H + H
    found = count(4, cell="lstm", reading="both-first", residual=True, readout="state")
    assert found == V * E + encoder + decoder + bridge + attention + H * E


def test_parameters_of_the_bottleneck() -> None:
    stack = layer(4, E) + layer(4, H)
    found = count(2, cell="lstm", reading="backward", attention="none", readout="state")
    assert found == V * E + 2 * stack + H * E


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"attention": "none", "reading": "forward", "input_feeding": True, "query": "current"},
            "input_feeding",
        ),
        ({"attention": "none", "reading": "forward", "readout": "tanh"}, "readout=tanh"),
        (
            {"attention": "none", "reading": "both"},
            "expected reading=forward or backward, found reading=both",
        ),
        ({"input_feeding": True}, "input_feeding needs query=current"),
        ({"query": "current", "readout": "state"}, "hasn't what attention found"),
    ],
)
def test_parts_that_do_not_fit_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RecurrentConfig.model_validate(options)
    with pytest.raises(ConfigError, match=rf"model\.recurrent: .*{words}"):
        Config.from_tree({"model": {"architecture": "recurrent", "recurrent": options}})


@pytest.mark.parametrize("attention", ["additive", "multiplicative", "none"])
@pytest.mark.parametrize("query", ["previous", "current"])
@pytest.mark.parametrize("readout", ["maxout", "tanh", "state"])
@pytest.mark.parametrize("feeding", [False, True])
def test_every_parameter_of_what_is_accepted_is_trained(
    attention: str, query: str, readout: str, feeding: bool
) -> None:
    """Gradients are summed over processes, which wait for those of every parameter."""
    options = {"attention": attention, "query": query, "readout": readout, "input_feeding": feeding}
    try:
        recurrent = RecurrentConfig.model_validate({"reading": "forward", **options})
    except ValidationError:
        return
    config = ModelConfig(architecture="recurrent", encoder_layers=2, decoder_layers=2, d_model=8, recurrent=recurrent)
    model = build_model(config, V, V)
    source, target = torch.randint(4, V, (2, 5)), torch.randint(4, V, (2, 4))
    model.project(model(source, torch.ones_like(source, dtype=torch.bool), target)).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_layers_that_do_not_fit_are_refused_when_the_model_is_built() -> None:
    config = ModelConfig(architecture="recurrent", encoder_layers=2, decoder_layers=3, d_model=16)
    with pytest.raises(ConfigError, match=r"model\.decoder_layers: .*expected 2 .*found 3"):
        build_model(config, V, V)
    config.decoder_layers = 2
    config.recurrent.residual = True
    with pytest.raises(ConfigError, match=r"model\.recurrent\.residual: .*third layer, found 2 layers"):
        build_model(config, V, V)


def test_a_misspelt_key_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean model\.recurrent\.readout\?"):
        Config.from_tree({"model": {"recurrent": {"readuot": "tanh"}}})


def test_reversing_leaves_padding_behind_and_undoes_itself() -> None:
    mask = torch.arange(5) < torch.tensor([[5], [3], [1]])
    x = torch.arange(15.0).view(3, 5, 1)
    assert reverse(x, mask)[..., 0].tolist() == [[4, 3, 2, 1, 0], [7, 6, 5, 8, 9], [10, 11, 12, 13, 14]]
    assert torch.equal(reverse(reverse(x, mask), mask), x)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_one_step_after_another_is_the_whole_run(cell: str) -> None:
    torch.manual_seed(0)
    recurrence = Recurrence(cell, 5, 7)
    x = torch.randn(3, 4, 5)
    state = tuple(torch.randn(3, 7) for _ in range(recurrence.parts))
    whole = recurrence.run(x, state)
    for position in range(4):
        state = recurrence.step(x[:, position], state, recurrence.weights(x.dtype))
        torch.testing.assert_close(state[0], whole[:, position])

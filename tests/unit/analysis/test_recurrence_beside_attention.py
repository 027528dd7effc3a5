"""Recurrence beside attention, against whole Jacobians, torch's own layers and the model's own states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headwise.analysis.interventions import parse_interventions
from headwise.analysis.language_models import LanguageModelTracer, MaskedModelTracer
from headwise.analysis.recurrence.comparing import (
    SHOWN,
    Network,
    RecurrenceComparison,
    compare,
    gradient_norms,
    shares_of_first,
)
from headwise.analysis.recurrence.networks import (
    GatedRecurrence,
    OwnEncoder,
    SimpleRecurrence,
    attention_layer,
)
from headwise.analysis.recurrence.timing import measure_times
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.decoding.generation import Generator
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from language_model_run import make_language_model_run, make_masked_model_run
from translator_run import ENGLISH, make_run

TEXT = ENGLISH[0]


class Linear(nn.Module):
    """h_t = ρ Q h_{t-1} + x_t for an orthogonal Q: ∂h_T/∂x_{T-k} = ρ^k Q^k, whose norm is ρ^k √size."""

    def __init__(self, size: int, radius: float) -> None:
        super().__init__()
        self.matrix = radius * torch.linalg.qr(torch.randn(size, size))[0]

    def forward(self, x: Tensor) -> Tensor:
        states = [x[:, 0]]
        for one in x.unbind(1)[1:]:
            states.append(states[-1] @ self.matrix.T + one)
        return torch.stack(states, 1)


@pytest.mark.parametrize("radius", [0.8, 1.0, 1.25])
@pytest.mark.parametrize("size", [12, 200])  # the whole Jacobian, and projections of it
def test_a_linear_recurrence_vanishes_and_explodes_by_its_radius(size: int, radius: float) -> None:
    torch.manual_seed(0)
    network, x = Linear(size, radius), torch.randn(20, size)
    powers = radius ** np.arange(20)
    np.testing.assert_allclose(gradient_norms(network, x), powers * size**0.5, rtol=1e-3)
    np.testing.assert_allclose(shares_of_first(network, x), powers, rtol=1e-3)


@pytest.mark.parametrize(
    "network",
    [SimpleRecurrence(8, 2.0), GatedRecurrence("gru", 8), GatedRecurrence("lstm", 8), attention_layer(8)],
    ids=["simple", "gru", "lstm", "attention"],
)
def test_gradient_norms_are_those_of_the_jacobian(network: Network) -> None:
    x = torch.randn(7, 8)
    jacobian = torch.autograd.functional.jacobian(lambda x: network(x[None])[0, -1], x)
    assert isinstance(jacobian, Tensor)  # (8, 7, 8)
    exact = jacobian.square().sum((0, 2)).sqrt().flip(0).numpy()
    np.testing.assert_allclose(gradient_norms(network, x), exact, rtol=1e-4, atol=1e-7)


def test_every_eigenvalue_has_the_radius() -> None:
    eigenvalues = np.linalg.eigvals(SimpleRecurrence(16, 1.7).state.detach().numpy())
    np.testing.assert_allclose(np.abs(eigenvalues), 1.7, rtol=1e-4)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_gated_states_are_torchs_and_the_same_by_position(cell: str) -> None:
    network, x = GatedRecurrence(cell, 8), torch.randn(2, 9, 8)
    expected, _ = network.layer.rnn(x.transpose(0, 1))
    torch.testing.assert_close(network(x), expected.transpose(0, 1))
    torch.testing.assert_close(network.by_position(x), network(x))


def test_gates_begin_open_for_as_long_as_they_should_remember() -> None:
    """A cell that forgets by σ(b) at each step keeps its content for 1 / (1 - σ(b)) steps: 2 to 64 here."""
    width = 512
    bias = GatedRecurrence("lstm", width).layer.rnn.bias_ih_l0.detach()[width : 2 * width]
    memory = 1 / (1 - torch.sigmoid(bias))
    assert memory.min() > 1.99
    assert memory.max() < 64.01
    assert 30 < memory.mean() < 36  # uniform


@pytest.mark.parametrize("reading", ["forward", "backward", "both"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_recurrent_runs_own_states_are_the_models(tmp_path: Path, cell: str, reading: str) -> None:
    options = {"cell": cell, "reading": reading, "attention": "additive", "query": "previous"}
    run = make_run(tmp_path / "run", seed=3, architecture="recurrent", recurrent=options)
    tracer = TranslationTracer(Translator.load(run, device="cpu"))
    found = compare(tracer, TEXT)
    own = found.networks[0]
    assert own.sequential
    side, _ = tracer.read(TEXT)
    ids = torch.tensor([side.ids])
    model = tracer.trained
    with torch.no_grad():
        states = model.encode(ids, torch.ones_like(ids, dtype=torch.bool)).states[0, :, :16]
    backward = reading == "backward"
    assert found.backward == backward
    assert found.pieces == (side.pieces[::-1] if backward else side.pieces)
    np.testing.assert_allclose(own.states, states.flip(0) if backward else states, atol=1e-6)
    assert own.kept[0] == own.gradient[0] == 1
    assert own.gradient[-1] < 0.1  # gates with random weights forget


def test_a_transformers_own_gradient_is_that_of_its_embeddings(tracer: TranslationTracer) -> None:
    own = compare(tracer, TEXT).networks[0]
    side, _ = tracer.read(TEXT)
    assert not own.sequential
    model = tracer.trained
    weight = model.get_parameter("source_embedding.weight")

    def last_state(embeddings: Tensor) -> Tensor:
        ids = torch.arange(len(side.ids))[None]
        called = {"source_embedding.weight": embeddings}
        return torch.func.functional_call(Encoding(model), prefixed(called), (ids,))[0, -1]

    jacobian = torch.autograd.functional.jacobian(last_state, weight.detach()[list(side.ids)])
    assert isinstance(jacobian, Tensor)
    exact = jacobian.square().sum((0, 2)).sqrt().flip(0).numpy()
    np.testing.assert_allclose(own.gradient, exact / exact[0], rtol=1e-3)


class Encoding(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model.encode(ids, torch.ones_like(ids, dtype=torch.bool)).states


def prefixed(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"model.{name}": value for name, value in parameters.items()}


def networks(found: RecurrenceComparison) -> dict[str, np.ndarray]:
    return {network.name: network.gradient for network in found.networks}


def test_the_comparison_vanishes_explodes_and_keeps(tracer: TranslationTracer) -> None:
    found = compare(tracer, TEXT, 3.0)
    gradients = networks(found)
    assert {name: len(values) for name, values in gradients.items() if name != "own"} == dict.fromkeys(
        ("shrinking", "stretching", "gru", "lstm", "attention"), 64
    )
    assert gradients["shrinking"][-1] <= 0.8**63 * 1.001  # tanh only shrinks more
    assert gradients["stretching"][-1] > 1e3
    for name in ("gru", "lstm", "attention"):
        assert 1e-3 < gradients[name][-1] < 10
    for network in found.networks:
        assert network.states.shape == (len(found.pieces), min(16, SHOWN))
        assert len(network.kept) == len(found.pieces)


def test_a_comparison_is_the_same_again_and_leaves_the_generator_alone(tracer: TranslationTracer) -> None:
    torch.manual_seed(5)
    first = networks(compare(tracer, TEXT))
    drawn = torch.rand(3)
    torch.manual_seed(6)
    second = networks(compare(tracer, TEXT))
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), drawn)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def test_interventions_reach_the_runs_own_encoder(tracer: TranslationTracer) -> None:
    """Without attention, nothing of another token arrives."""
    changes = parse_interventions(["silence:encoder.*.*"])
    own = compare(tracer, TEXT, interventions=changes).networks[0]
    assert own.gradient[1:].max() == 0


def test_models_of_one_text_are_compared_too(tmp_path: Path) -> None:
    writer = LanguageModelTracer(Generator.load(make_language_model_run(tmp_path / "writer"), device="cpu"))
    run = make_masked_model_run(tmp_path / "masked")
    masked = MaskedModelTracer.load(run, "cpu")
    for tracer, title in ((writer, "this run's decoder"), (masked, "this run's encoder")):
        found = compare(tracer, "the cat sat")
        assert found.networks[0].title == title
        assert found.networks[0].gradient.min() > 0


@pytest.mark.parametrize(
    ("text", "radius", "sentence"),
    [(" ", 2.0, "found an empty one"), (TEXT, 9.0, "radius: expected from 0.1 to 4.0, found 9")],
)
def test_mistakes(tracer: TranslationTracer, text: str, radius: float, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        compare(tracer, text, radius)


def test_a_text_of_one_token_and_a_long_one(tracer: TranslationTracer) -> None:
    side = tracer.read("x")[0]
    assert len(compare(tracer, "x").networks[0].gradient) == len(side.ids)
    assert len(compare(tracer, "cat " * 90).networks[1].gradient) == 64  # cut at the model's longest input


def test_times_are_measured_for_each_length() -> None:
    times = measure_times(16, (2, 5))
    assert [(row.name, row.sequential, len(row.milliseconds)) for row in times.rows] == [
        ("gru-steps", True, 2),
        ("gru", True, 2),
        ("attention", False, 2),
    ]
    assert all(value > 0 for row in times.rows for value in row.milliseconds)


def test_the_own_encoder_gives_the_models_states_for_the_models_embeddings(tracer: TranslationTracer) -> None:
    model = tracer.trained
    ids = torch.tensor(tracer.read(TEXT)[0].ids)
    own = OwnEncoder(Encoding(model), model.source_embedding, ids)
    with torch.no_grad():
        torch.testing.assert_close(own(own.inputs()[None]), Encoding(model)(ids[None]))

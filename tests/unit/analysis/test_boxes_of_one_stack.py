"""The boxes of models with one stack (GPT, BERT, ViT) against an independent forward pass in NumPy; and their sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from boxes import (
    Case,
    Watched,
    each_begins_with_the_last,
    outputs_are_those_of,
    steps_recombine,
    vary_vectors,
)
from headwise.analysis.boxes.architecture import architecture, box_of
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.analysis.language_models import TextTracer, open_tracer
from headwise.analysis.viewer import ClassifierViewer
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.learn.from_scratch import causal_mask, linear
from headwise.models.counting import parameter_count
from image_run import make_image_run
from language_model_run import make_language_model_run, make_masked_model_run
from oracle import ACTIVATIONS, Array, Oracle

TEXTS = {"gpt": "the cat sat", "bert": "the <mask> sat"}
SWIGLU = {"activation": "silu", "gated": True, "feed_forward_bias": False, "normalization": "rms"}
ROTARY = {"norm": "pre", "positions": "rotary", "key_value_heads": 1, "share_embeddings": "none", **SWIGLU}
GPT2 = {
    **{"norm": "pre", "positions": "learned", "scale_embeddings": False, "activation": "gelu_tanh"},
    **{"attention_bias": True, "logit_bias": True},
}
BERT = {
    **{"positions": "learned", "scale_embeddings": False, "embedding_norm": True, "segments": 2},
    **{"activation": "gelu", "attention_bias": True},
}
MODELS: dict[str, dict[str, Any]] = {
    "gpt-paper": {"decoder_layers": 2},
    "gpt-2": GPT2,
    "gpt-llama": ROTARY,
    "bert": BERT,
    "bert-pre": {"norm": "pre", "segments": 2, "positions": "alibi", "attention": "reference"},
    "vit-class": {},
    "vit-mean": {"norm": "post", "positions": "sinusoidal", "scale_embeddings": True},
}


def recorded_of(path: Path, name: str) -> tuple[nn.Module, Callable[[], BoxTensors]]:
    """Make a run; return its model and what records it."""
    kind, changes = name.split("-")[0], MODELS[name]
    if kind == "vit":
        pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")
        pooling = "mean" if name == "vit-mean" else "class"
        options = {"patch": 2, "pooling": pooling, "model_changes": changes}
        run = make_image_run(path, "image_classification", **options)
        viewer = ClassifierViewer(run, Config.load(run / "config.yaml"), "cpu")
        return viewer.model, lambda: BoxTensors(viewer.record(viewer.held_out(3).pixels))
    run = {"gpt": make_language_model_run, "bert": make_masked_model_run}[kind](path, **changes)
    tracer = open_tracer(run, "cpu")
    assert isinstance(tracer, TextTracer)

    def recorded() -> BoxTensors:
        forced = tracer.trace(TEXTS[kind]).forced
        assert forced is not None
        return BoxTensors(tracer.record(TEXTS[kind], forced.target.ids))

    return tracer.trained, recorded


def renamed(name: str) -> str:
    """The name that the independent model has for a module or a parameter."""
    for prefix in ("encoder.encoder.layers", "vision.encoder.layers", "layers"):
        if name.startswith(f"{prefix}."):
            return "encoder" + name.removeprefix(prefix)
    for norm in ("encoder.encoder.norm", "vision.encoder.norm", "norm"):
        if name.startswith(norm):
            return "encoder_norm" + name.removeprefix(norm)
    return name.removeprefix("vision.") if name.startswith("vision.positions.") else name.removeprefix("encoder.")


def embedded(oracle: Oracle, recorded: BoxTensors) -> Array:
    """The input of the first layer."""
    w, config, structure = oracle.weights, oracle.config, recorded.structure
    modules = structure.stacks[0]
    if structure.vision is None:
        ids = list(recorded.forward.sides[modules.name].ids)
        e = w[f"{modules.embedding}.weight"][ids]
    else:
        x = recorded.call("vision.patch").given.double().numpy()
        e = linear(x, oracle.part("vision"), "patch")
        if structure.vision.class_token is not None:
            e = np.concatenate([w["vision.class_token"][None], e])
    zeros = Oracle({**w, "zeros": np.zeros((1, config.d_model))}, config)
    x = e * (np.sqrt(config.d_model) if config.scale_embeddings else 1) + zeros.embed("zeros", [0] * len(e))
    if config.segments:
        x = x + w[f"{modules.positions}.segments.weight"][0]
    return oracle.layer_norm(f"{modules.positions}.norm", x) if config.embedding_norm else x


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    model, recorded_now = recorded_of(tmp_path_factory.mktemp("runs") / request.param, request.param)
    vary_vectors(model)
    recorded = recorded_now()
    structure = recorded.structure
    layers = structure.layers(structure.stacks[0])
    config = structure.config.model_copy(update={"encoder_layers": layers, "decoder_layers": layers})
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    oracle = Watched(Oracle({**weights, **{renamed(name): w for name, w in weights.items()}}, config))
    x = first = embedded(oracle, recorded)
    mask = causal_mask(len(x)) if structure.stacks[0].name == "decoder" else np.ones((1, len(x)), dtype=bool)
    for layer in range(layers):
        x = oracle.encoder_layer(f"encoder.{layer}", x, mask)
    oracle.keep("logits", logits(oracle, recorded, oracle.last_norm("encoder_norm", x)))
    outputs = {**oracle.outputs} | {
        name: oracle.outputs[renamed(name)] for name, _ in model.named_modules() if renamed(name) in oracle.outputs
    }
    return Case(recorded, oracle, outputs, {structure.stacks[0].name: first})


def logits(oracle: Watched, recorded: BoxTensors, x: Array) -> Array:
    """What follows the last layer."""
    w, structure = oracle.weights, recorded.structure
    if structure.vision is not None:
        pooled = x.mean(0, keepdims=True) if structure.vision.class_token is None else x[:1]
        return linear(oracle.keep("pooled", pooled), w, "output")
    if structure.masked_head is not None:
        activated = ACTIVATIONS[oracle.config.activation](linear(x, oracle.part("head"), "dense"))
        return oracle.layer_norm("head.norm", activated) @ w["encoder.embedding.weight"].T + w["head.bias"]
    own = "output_projection.weight"
    return x @ w[own if own in w else "embedding.weight"].T + w.get("logit_bias", 0.0)


def test_every_box_hands_on_what_an_independent_forward_pass_computes(case: Case) -> None:
    layers = case.recorded.structure.layers(case.recorded.structure.stacks[0])
    assert outputs_are_those_of(case) >= 1 + 4 * layers


def test_each_box_begins_with_what_the_box_before_it_hands_on(case: Case) -> None:
    each_begins_with_the_last(case, case.recorded.structure.stacks[0].name)


def test_the_steps_of_a_box_recombine(case: Case) -> None:
    steps_recombine(case)


def test_the_shares_add_up_and_the_operations_are_torchs(case: Case) -> None:
    found, model = architecture(case.recorded.forward), case.recorded.structure.model
    assert [(box.name, box.layer) for box in found.boxes] == [(p.name, p.layer) for p in case.places]
    assert sum(part.parameters for part in found.parts) == parameter_count(model)
    if case.config.positions == "alibi":
        return
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        run_again(case.recorded)
    assert counter.get_total_flops() == sum(part.flops or 0 for part in found.parts)
    for box in found.boxes:
        assert box.sizes.shape == (box.shape[0],) == (len(found.pieces[box.row]),)


def run_again(recorded: BoxTensors) -> None:
    model: Any = recorded.structure.model
    if recorded.structure.vision is not None:
        model(torch.zeros(1, 1, 8, 8))
        return
    hidden = model(torch.zeros(1, len(next(iter(recorded.forward.sides.values())).ids), dtype=torch.long))
    if recorded.structure.masked_head is not None:
        model.head(hidden[0], model.encoder.embedding.weight.detach())
    else:
        model.project(hidden)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> TextTracer:
    tracer = open_tracer(make_language_model_run(tmp_path_factory.mktemp("runs") / "writer"), "cpu")
    assert isinstance(tracer, TextTracer)
    return tracer


@pytest.mark.parametrize(
    ("name", "layer", "position", "message"),
    [
        ("encoder.self-attention", 0, 0, "box: expected one of this model's (decoder.embedding, "),
        ("decoder.cross-attention", 0, 0, "found 'decoder.cross-attention'"),
        ("head", None, 0, "found 'head'"),
        ("decoder.self-attention", 1, 0, "layer: expected a number from 1 to 1, found 2"),
        ("softmax", None, 12, "position: expected a number from 1 to 12, found 13"),
    ],
)
def test_a_box_that_there_is_none_of(
    writer: TextTracer, name: str, layer: int | None, position: int, message: str
) -> None:
    ids = writer.read("the cat sat!"[:11])[0].ids
    with pytest.raises(ConfigError) as raised:
        box_of(writer.record("the cat sat", [*ids[1:], ids[0]]), name, layer, position)
    assert message in str(raised.value)


def test_the_class_token_is_read_alone(tmp_path: Path) -> None:
    _, recorded_now = recorded_of(tmp_path / "vit", "vit-class")
    recorded = recorded_now()
    box = box_of(recorded.forward, "pooling")
    last = recorded.last(recorded.structure.stacks[0])
    np.testing.assert_array_equal(box.output, last[0])
    with pytest.raises(ConfigError, match="position: expected a number from 1 to 1, found 2"):
        box_of(recorded.forward, "classifier", None, 1)

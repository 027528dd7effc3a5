"""Parts of the model switched off: each equals a NumPy forward pass without it, and the model is restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwise.analysis.interventions import parse_interventions
from headwise.analysis.interventions.sublayers import position_order
from headwise.analysis.interventions.weights import order
from headwise.analysis.trace import ForcedDecoding
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config.support import Support
from headwise.engine.native.engine import unsupported
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.learn import from_scratch
from headwise.learn.from_scratch import Array
from headwise.models.transformer import Transformer
from headwise.text.tokens.subwords import EOS
from translator_run import ENGLISH, make_run

TEXT, TARGET = ENGLISH[0], "Zwei Hunde spielen im Schnee."
LAYERS = {"encoder": 2, "decoder": 2}


@pytest.fixture(scope="module", params=["post", "pre"])
def tracer(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> TranslationTracer:
    run = make_run(tmp_path_factory.mktemp("runs") / "de", seed=3, norm=request.param)
    return TranslationTracer(Translator.load(run))


class Without(from_scratch.Transformer):
    """The NumPy model without what `removed` names: pairs of a part's name and a layer such as `encoder.0`."""

    removed: set[tuple[str, str]]

    def lacks(self, what: str, layer: str) -> bool:
        return (what, layer) in self.removed

    def encoder_layer(self, layer: str, x: Array, mask: Array) -> Array:
        steps = [
            ("attention", lambda y: self.self_attention(f"{layer}.self_attention", y, mask)),
            ("feed_forward", lambda y: self.feed_forward(f"{layer}.feed_forward", y)),
        ]
        return self.sublayers(layer, x, steps)

    def decoder_layer(self, layer: str, x: Array, memory: Array, mask: Array) -> Array:
        own = from_scratch.causal_mask(len(x)) | self.lacks("mask", layer)
        steps = [
            ("self_attention", lambda y: self.self_attention(f"{layer}.self_attention", y, own)),
            ("cross_attention", lambda y: self.cross_attention(f"{layer}.cross_attention", y, memory, mask)),
            ("feed_forward", lambda y: self.feed_forward(f"{layer}.feed_forward", y)),
        ]
        return self.sublayers(layer, x, steps)

    def sublayers(self, layer: str, x: Array, steps: list[tuple[str, Callable[[Array], Array]]]) -> Array:
        for name, sublayer in steps:
            around = f"{layer}.around_{name}.norm"
            y = sublayer(self.before(around, x))
            x = self.after(around, y if self.lacks("residual", layer) else x + y)
        return x

    def layer_norm(self, name: str, x: Array) -> Array:
        layer = name if name.endswith("_norm") else ".".join(name.split(".")[:2])
        return x if self.lacks("norm", layer) else super().layer_norm(name, x)

    def feed_forward(self, name: str, x: Array) -> Array:
        output = super().feed_forward(name, x)
        return np.zeros_like(output) if self.lacks("ffn", name.removesuffix(".feed_forward")) else output

    def embed(self, name: str, tokens: Any) -> Array:
        part = "encoder" if name.startswith("source") else "decoder"
        table = self.weights[name]
        x = super().embed(name, tokens)
        if self.lacks("positions", part):
            x = table[list(tokens)] * np.sqrt(table.shape[1])
        return x


def scratch(tracer: TranslationTracer, removed: set[tuple[str, str]] | None = None) -> Without:
    model = tracer.trained
    assert isinstance(model, Transformer)
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    numpy_model = Without(weights, 2, 2, model.config.heads, model.config.norm)
    numpy_model.removed = removed or set()
    return numpy_model


def gains(model: from_scratch.Transformer, source: Any, forced: ForcedDecoding) -> NDArray:
    ids = list(forced.target.ids)
    return model.log_probabilities(source, forced.reads.ids)[np.arange(len(ids)), ids]


def forced(tracer: TranslationTracer, *changes: str) -> ForcedDecoding:
    return tracer.force(TEXT, TARGET, parse_interventions(changes))


def layers(what: str, *parts: str, number: int | None = None) -> set[tuple[str, str]]:
    return {(what, f"{part}.{n}") for part in parts for n in range(2) if number in (None, n)}


BOTH = ("encoder", "decoder")
KNOBS = {
    "no-residual:*.*": layers("residual", *BOTH),
    "no-residual:decoder.2": layers("residual", "decoder", number=1),
    "no-norm:*.*": layers("norm", *BOTH) | {("norm", "encoder_norm"), ("norm", "decoder_norm")},
    "no-norm:encoder.*": layers("norm", "encoder") | {("norm", "encoder_norm")},
    "no-norm:encoder.1": layers("norm", "encoder", number=0),
    "no-ffn:*.*": layers("ffn", *BOTH),
    "no-ffn:decoder.1": layers("ffn", "decoder", number=0),
    "no-mask:decoder.*": layers("mask", "decoder"),
    "no-mask:decoder.2": layers("mask", "decoder", number=1),
    "no-positions:*": {("positions", "encoder"), ("positions", "decoder")},
    "no-positions:encoder": {("positions", "encoder")},
    "no-positions:decoder": {("positions", "decoder")},
}


@pytest.mark.parametrize("change", KNOBS)
def test_a_part_switched_off_equals_a_model_without_it(tracer: TranslationTracer, change: str) -> None:
    before = forced(tracer)
    now = forced(tracer, change)
    source = tracer.read(TEXT)[0].ids
    assert np.allclose(now.log_probabilities, gains(scratch(tracer, KNOBS[change]), source, now), atol=1e-4)
    assert not np.allclose(now.log_probabilities, before.log_probabilities, atol=1e-3)
    after = forced(tracer)
    assert after.log_probabilities == before.log_probabilities  # the same bits
    for part, weights in before.attention.items():
        assert np.array_equal(after.attention[part], weights)


@pytest.mark.parametrize(
    ("change", "factor"),
    [("no-scaling:*.*.*", 8**0.5), ("temperature:*.*.*@0.25", 4.0), ("temperature:*.*.*@3", 1 / 3)],
)
def test_a_temperature_equals_scaled_queries(tracer: TranslationTracer, change: str, factor: float) -> None:
    now = forced(tracer, change)
    model = scratch(tracer)
    model.weights = {name: w * factor if name.endswith("query.weight") else w for name, w in model.weights.items()}
    assert np.allclose(now.log_probabilities, gains(model, tracer.read(TEXT)[0].ids, now), atol=1e-4)
    for layer in (0, 1):
        expected = model.trace[f"decoder.{layer}.cross_attention.weights"]
        assert np.allclose(now.attention["cross"][layer], expected, atol=1e-5)


def test_a_temperature_of_one_head_changes_no_other(tracer: TranslationTracer) -> None:
    before, now = forced(tracer), forced(tracer, "temperature:encoder.1.2@5")
    changed = ~np.isclose(before.attention["encoder"][0], now.attention["encoder"][0], atol=1e-6)
    assert not changed[0].any()
    assert changed[1].any()


def test_one_head_only_silences_the_others(tracer: TranslationTracer) -> None:
    assert forced(tracer, "only:cross.2.1").log_probabilities == forced(tracer, "silence:cross.2.2").log_probabilities
    everywhere = forced(tracer, "only:*.*.2")
    silenced = forced(tracer, *(f"silence:{part}.*.1" for part in ("encoder", "decoder", "cross")))
    assert everywhere.log_probabilities == silenced.log_probabilities


@given(count=st.integers(0, 300), number=st.integers(-999_999_999, 999_999_999))
def test_an_order_is_a_permutation(count: int, number: int) -> None:
    assert sorted(order(count, number).tolist()) == list(range(count))


def test_shuffled_positions_are_a_sentence_in_another_order(tracer: TranslationTracer) -> None:
    now = forced(tracer, "shuffle-positions:encoder@5")
    source = tracer.read(TEXT)[0].ids
    places = position_order(len(source), 5).tolist()
    assert places != list(range(len(source)))
    assert places[-1] == len(source) - 1
    assert sorted(places) == list(range(len(source)))
    reordered = [source[places.index(position)] for position in range(len(source))]
    assert np.allclose(now.log_probabilities, gains(scratch(tracer), reordered, now), atol=1e-4)


def test_without_source_positions_the_order_of_words_does_not_matter(tracer: TranslationTracer) -> None:
    change = parse_interventions(["no-positions:encoder"])
    words = TEXT.removesuffix(".").split()
    one = tracer.force(" ".join(words), TARGET, change)
    other = tracer.force(" ".join(words[::-1]), TARGET, change)
    assert np.allclose(one.log_probabilities, other.log_probabilities, atol=1e-4)


@pytest.mark.parametrize("change", [*(c for c in KNOBS if "mask" not in c), "no-scaling:*.*.*", "only:*.*.1"])
def test_the_search_computes_what_forced_decoding_does(tracer: TranslationTracer, change: str) -> None:
    trace = tracer.trace(TEXT, parse_interventions([change]), beam=2)
    assert trace.forced is not None
    assert trace.forced.log_probability == pytest.approx(trace.hypotheses[0].log_probability, abs=1e-3)


def test_a_search_without_mask_reads_each_prefix_anew(tracer: TranslationTracer) -> None:
    trace = tracer.trace(TEXT, parse_interventions(["no-mask:decoder.*"]), beam=3)
    model = scratch(tracer, KNOBS["no-mask:decoder.*"])
    memory = model.encode(trace.source.ids)
    assert trace.forced is not None
    ids = (*trace.hypotheses[0].ids, EOS)
    reads = trace.forced.reads.ids
    for step, token in enumerate(ids):
        logits = model.logits(model.decode(reads[: step + 1], memory))
        expected = from_scratch.log_softmax(logits)[-1, token]
        assert trace.hypotheses[0].token_log_probabilities[step] == pytest.approx(expected, abs=1e-3)


def test_knobs_add_up_in_any_order(tracer: TranslationTracer) -> None:
    changes = ["no-norm:*.*", "no-residual:encoder.*", "no-positions:*", "no-mask:decoder.1", "no-ffn:*.2"]
    removed = (
        KNOBS["no-norm:*.*"]
        | layers("residual", "encoder")
        | KNOBS["no-positions:*"]
        | layers("mask", "decoder", number=0)
        | layers("ffn", *BOTH, number=1)
    )
    source = tracer.read(TEXT)[0].ids
    for each in (changes, changes[::-1]):
        now = forced(tracer, *each)
        assert np.allclose(now.log_probabilities, gains(scratch(tracer, removed), source, now), atol=1e-4)


@pytest.mark.parametrize(
    ("knob", "key", "value"),
    [
        ("no-residual:*.*", "residual", False),
        ("no-scaling:*.*.*", "attention", "unscaled"),
        ("no-positions:*", "positions", "none"),
    ],
)
def test_a_model_built_without_a_part_is_the_one_with_it_switched_off(
    tracer: TranslationTracer, tmp_path: Path, knob: str, key: str, value: object
) -> None:
    """And neither the native engine nor an export takes it for the whole model."""
    whole = transformer(tracer).config
    run = make_run(tmp_path / "without", seed=3, norm=whole.norm, **{key: value})
    without = TranslationTracer(Translator.load(run, device="cpu"))
    assert forced(without).log_probabilities == pytest.approx(forced(tracer, knob).log_probabilities, abs=1e-5)
    config = transformer(without).config
    shown = f"model.{key}={str(value).lower()}"
    assert set(Support().problems(config)) == {shown, *Support().problems(whole)}
    assert (unsupported(config) is None) == (key == "positions")


def transformer(tracer: TranslationTracer) -> Transformer:
    model = tracer.trained
    assert isinstance(model, Transformer)
    return model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-residual:encoder.3", "layer from 1 to 2, found 3"),
        ("no-mask:encoder.1", "written as in no-mask:decoder.2"),
        ("only:cross.1.*", "written as in only:cross.2.3"),
        ("temperature:cross.1.1@0", "above 0"),
        ("shuffle-positions:decoder@1", "written as in shuffle-positions:encoder@7"),
        ("only:*.1.3", "head from 1 to 2, found 3"),
    ],
)
def test_an_impossible_knob_is_refused_in_one_sentence(tracer: TranslationTracer, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        forced(tracer, text)


def test_other_models_say_what_they_lack(tmp_path: Path) -> None:
    recurrent = make_run(tmp_path / "recurrent", architecture="recurrent", norm="post")
    other = TranslationTracer(Translator.load(recurrent))
    with pytest.raises(ConfigError, match="expected a Transformer"):
        forced(other, "no-residual:*.*")
    with pytest.raises(ConfigError, match="without √d_k"):
        forced(other, "no-scaling:*.*.*")
    rotary = TranslationTracer(Translator.load(make_run(tmp_path / "rotary", positions="rotary")))
    with pytest.raises(ConfigError, match="positions added to the embeddings"):
        forced(rotary, "shuffle-positions:encoder@1")
    assert forced(rotary, "no-positions:*").log_probability != forced(rotary).log_probability
    biased = TranslationTracer(Translator.load(make_run(tmp_path / "alibi", positions="alibi")))
    with pytest.raises(ConfigError, match="position bias"):
        forced(biased, "no-scaling:encoder.1.1")


def test_numbers_that_overflow_are_an_error_and_not_shown(tmp_path: Path) -> None:
    large = TranslationTracer(Translator.load(make_run(tmp_path / "large", norm="pre")))
    with torch.no_grad():
        for name, parameter in large.trained.named_parameters():
            if name.endswith(("w2.weight", "query.weight")):
                parameter *= 1e17
    assert np.isfinite(forced(large).log_probability)
    for change in ("no-norm:*.*", "no-norm:decoder.*"):
        with pytest.raises(ConfigError, match="overflow"):
            large.trace(TEXT, parse_interventions([change]))


def test_learned_positions_come_back(tmp_path: Path) -> None:
    learned = TranslationTracer(Translator.load(make_run(tmp_path / "learned", positions="learned")))
    before = forced(learned)
    assert forced(learned, "no-positions:encoder").log_probabilities != before.log_probabilities
    assert forced(learned).log_probabilities == before.log_probabilities
    with learned.model() as model:
        assert isinstance(model.get_parameter("positions.table"), torch.nn.Parameter)

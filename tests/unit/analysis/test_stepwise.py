"""Generation step by step equals teacher forcing, and an independent forward pass of each prefix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwise.analysis.interventions import parse_interventions
from headwise.analysis.stepwise import step_by_step
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.learn import from_scratch
from headwise.models.transformer import Transformer
from headwise.text.tokens.subwords import BOS
from translator_run import ENGLISH, GERMAN, make_run

TEXT, TARGET = ENGLISH[0], GERMAN[1]


def test_each_step_is_a_forward_pass_of_its_prefix(tracer: TranslationTracer) -> None:
    found = step_by_step(tracer, TEXT, TARGET, alternatives=4)
    model = tracer.trained
    assert isinstance(model, Transformer)
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    scratch = from_scratch.Transformer(weights, 2, 2, model.config.heads)
    ids = found.target.ids
    assert len(found.steps) == len(ids)
    assert found.attention is not None
    for i, step in enumerate(found.steps):
        log_probs = scratch.log_probabilities(found.source.ids, (BOS, *ids[:i]))[-1]
        assert step.chosen.log_probability == pytest.approx(log_probs[ids[i]], abs=1e-4)
        assert [one.id for one in step.alternatives] == np.argsort(-log_probs)[:4].tolist()
        for layer in (0, 1):
            expected = scratch.trace[f"decoder.{layer}.cross_attention.weights"][:, -1]
            assert np.allclose(found.attention[layer, :, i], expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [{}, {"positions": "rotary", "norm": "pre"}, {"attention": "linear"}, {"architecture": "recurrent"}],
    ids=["paper", "rotary", "linear", "recurrent"],
)
def test_teacher_forcing_computes_the_same_at_once(tmp_path: Path, changes: dict[str, str]) -> None:
    tracer = TranslationTracer(Translator.load(make_run(tmp_path / "run", seed=4, **changes)))
    found = step_by_step(tracer, TEXT, TARGET)
    forced = tracer.force(TEXT, TARGET)
    assert found.difference < 1e-5
    for step, log_probability in zip(found.steps, forced.log_probabilities, strict=True):
        assert step.forced == pytest.approx(log_probability, abs=1e-5)
        assert step.chosen.log_probability == pytest.approx(log_probability, abs=1e-4)
        assert [one.id for one in step.alternatives] == [one.id for one in step.forced_alternatives]
    assert found.attention is not None
    assert np.allclose(found.attention, forced.attention["cross"], atol=1e-5)


def test_without_the_mask_teacher_forcing_sees_what_no_step_has(tracer: TranslationTracer) -> None:
    found = step_by_step(tracer, TEXT, TARGET, parse_interventions(["no-mask:decoder.*"]))
    assert found.difference > 1e-4
    assert found.steps[-1].difference < 1e-5  # the last position has nothing after it


def test_bad_input(tracer: TranslationTracer) -> None:
    with pytest.raises(ConfigError, match="empty"):
        step_by_step(tracer, " ", TARGET)
    with pytest.raises(ConfigError, match="from 1 to"):
        step_by_step(tracer, TEXT, [])

"""Validation of a translation run: its search and the limit of its outputs; and the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from headwise.config import Config
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.options import SearchOptions
from headwise.engine.outputs import Translation
from headwise.engine.translator import Translator
from headwise.models.transformer import Transformer
from headwise.tasks import translation
from headwise.tasks.registry import find_task
from headwise.tasks.translation import TranslationTask, usual_lengths
from headwise.text.tokens.subwords import PAD
from toy import Toy, toy_pairs, write_toy

PAIRS = 250  # in the development set


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return write_toy(tmp_path_factory.mktemp("toy"), toy_pairs(6000))


@pytest.fixture(scope="module")
def config(toy: Toy) -> Config:
    return Config.load(toy.config, [f"data.dev_pairs={PAIRS}", "subwords.dropout=0", "decoding.beam=2"])


@pytest.fixture
def task(config: Config, tmp_path: Path) -> TranslationTask:
    """Return the training task of an untrained model."""
    kind = find_task("translation")
    prepared = kind.prepare(config, tmp_path / "prepared", expected=None, say=lambda _: None)
    torch.manual_seed(1)
    untrained = kind.task(config, prepared, kind.build(config, prepared))
    assert isinstance(untrained, TranslationTask)
    return untrained


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], SearchOptions]]:
    """Record the texts and options of every call of `Translator.translate`."""
    calls: list[tuple[list[str], SearchOptions]] = []
    real = Translator.translate

    def translate(self: Translator, texts: Sequence[str], options: SearchOptions) -> list[Translation]:
        calls.append((list(texts), options))
        return real(self, texts, options)

    monkeypatch.setattr(Translator, "translate", translate)
    return calls


def test_a_validation_translates_greedily_and_not_to_the_limit(
    task: TranslationTask, searched: list[tuple[list[str], SearchOptions]]
) -> None:
    scores = task.validate()
    assert scores["loss"] > math.log(12)  # words of the toy language
    assert set(scores) == {"loss", "perplexity", "bleu"}
    ((texts, options),) = searched
    assert texts == task.prepared.dev_source
    assert (options.beam, options.extra_length) == (1, 10)
    lengths = task.prepared.dev.source_lengths
    assert max(map(options.limit, lengths.tolist())) < max(SearchOptions().limit(n) for n in lengths.tolist())


def test_the_final_validation_calibrates_the_models_estimate(task: TranslationTask) -> None:
    task.model.eval()
    task.validate()
    assert task.measured() == {}
    task.validate(final=True)
    curve = task.measured()["quality"]
    translator = Translator(PyTorchEngine(task.model), task.prepared.subwords, task.config.decoding)
    outputs = [each.outputs[0] for each in translator.translate(list(task.prepared.dev_source))]
    scores = [
        CHRF().sentence_score(output.text, [reference]).score
        for output, reference in zip(outputs, task.prepared.dev_target, strict=True)
    ]
    assert np.mean(curve["chrf"]) == pytest.approx(np.mean(scores), rel=0.1)  # of groups of about equal size
    below = sum(output.probability < curve["review"] for output in outputs)
    assert below == pytest.approx(PAIRS / 5, abs=1)


def test_the_final_validation_searches_with_the_runs_own_options(
    task: TranslationTask, config: Config, searched: list[tuple[list[str], SearchOptions]]
) -> None:
    scores = task.validate(final=True)
    assert set(scores) == {"loss", "perplexity", "bleu"}
    ((texts, options),) = searched
    assert texts == task.prepared.dev_source
    found = (options.beam, options.alpha, options.extra_length, options.length_factor)
    assert found == (config.decoding.beam, config.decoding.alpha, config.decoding.extra_length, 1.0)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=40), st.integers(0, 10))
def test_usual_lengths_hold_for_nearly_all_pairs(pairs: list[tuple[int, int]], margin: int) -> None:
    sources, targets = np.array(pairs, np.int32).T
    factor = usual_lengths(sources, targets, margin)
    options = SearchOptions(length_factor=factor, extra_length=margin)
    within = [target <= options.limit(source) + 1 for source, target in pairs]
    assert np.mean(within) >= 0.9  # with so few pairs the quantile is interpolated
    assert factor >= targets.sum() / sources.sum() - 1e-9


@given(st.integers(1, 400), st.floats(0.01, 9), st.integers(0, 60), st.integers(1, 300) | st.none())
def test_a_limit_is_its_definition(length: int, factor: float, extra: int, most: int | None) -> None:
    limit = SearchOptions(length_factor=factor, extra_length=extra, max_length=most).limit(length)
    assert limit == max(1, min(math.ceil(length * factor) + extra, math.inf if most is None else most + 1))


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_a_bias_of_the_logits_is_part_of_the_loss(config: Config, tmp_path: Path, alpha: float) -> None:
    """With R-Drop and no dropout, both passes are alike, and their divergence is zero."""
    changes = ["model.logit_bias=true", f"training.r_drop={alpha}", "training.label_smoothing=0.1"]
    changes += [f"model.{name}dropout=0" for name in ("", "attention_", "activation_")]
    config = config.with_overrides(changes)
    kind = find_task("translation")
    prepared = kind.prepare(config, tmp_path / "prepared", expected=None, say=lambda _: None)
    model = kind.build(config, prepared)
    assert isinstance(model, Transformer)
    assert model.logit_bias is not None
    torch.nn.init.normal_(model.logit_bias)
    batch = next(iter(kind.task(config, prepared, model).batches()))
    found = translation.translation_loss(model, batch, config.training).total
    logits = model.project(model(batch.source, batch.source_mask, batch.target_input)).flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(
        logits, batch.target_output.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    parameters = [model.logit_bias, model.source_embedding.weight]
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters),
        torch.autograd.grad(expected, parameters),
        rtol=1e-4,
        atol=1e-4,
    )

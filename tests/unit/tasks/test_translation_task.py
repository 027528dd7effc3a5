"""Validation of a translation run: limited for an almost untrained model, and not repeated for the same parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import Config
from headwise.decoding.options import SearchOptions
from headwise.decoding.outputs import Translation
from headwise.decoding.translator import Translator
from headwise.models.transformer import Transformer
from headwise.tasks import translation
from headwise.tasks.base import ScoreCache
from headwise.tasks.registry import find_task
from headwise.tasks.run import train
from headwise.tasks.translation import TranslationTask, entropy, usual_lengths
from headwise.text.tokens.subwords import PAD
from headwise.training.monitor import read_metrics
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


def test_a_model_that_knows_nothing_translates_evenly_spread_pairs_greedily_and_not_to_the_limit(
    task: TranslationTask, searched: list[tuple[list[str], SearchOptions]]
) -> None:
    scores = task.validate()
    assert scores["loss"] > math.log(12)  # words of the toy language
    assert set(scores) == {"loss", "perplexity", "sample_bleu", "translated"}
    (texts, options), dev = searched[0], task.prepared.dev_source
    assert scores["translated"] == len(texts) == len(dev[::3]) == 84
    assert texts == dev[::3]
    assert (options.beam, options.extra_length) == (1, 10)
    lengths = task.prepared.dev.source_lengths[::3]
    assert max(map(options.limit, lengths.tolist())) < max(SearchOptions().limit(n) for n in lengths.tolist())


def test_the_final_validation_of_a_model_that_knows_nothing_translates_all_but_not_to_the_limit(
    task: TranslationTask, searched: list[tuple[list[str], SearchOptions]]
) -> None:
    task.validate()
    scores = task.validate(final=True)
    assert set(scores) == {"loss", "perplexity", "bleu", "translated"}
    (_, before), (texts, options) = searched
    assert texts == task.prepared.dev_source
    assert options == before


def test_the_final_validation_translates_all_with_the_runs_own_search(
    task: TranslationTask,
    config: Config,
    searched: list[tuple[list[str], SearchOptions]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translation, "_UNTRAINED", 1e9)
    scores = task.validate(final=True)
    assert set(scores) == {"loss", "perplexity", "bleu", "translated"}
    ((texts, options),) = searched
    assert texts == task.prepared.dev_source
    assert scores["translated"] == PAIRS
    found = (options.beam, options.alpha, options.extra_length, options.length_factor)
    assert found == (config.decoding.beam, config.decoding.alpha, config.decoding.extra_length, 1.0)


def test_a_model_that_knows_something_translates_all(
    task: TranslationTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, name, count in ((1e9, "bleu", PAIRS), (0.0, "sample_bleu", 84), (1e9, "bleu", PAIRS)):
        monkeypatch.setattr(translation, "_UNTRAINED", share)
        scores = task.validate()
        assert (name in scores, scores["translated"]) == (True, count)


def test_few_pairs_are_all_translated(toy: Toy, tmp_path: Path) -> None:
    config = Config.load(toy.config, ["subwords.dropout=0", "training.max_steps=1", "data.dev_pairs=100"])
    train(config, tmp_path, quiet=True)
    records = {record["kind"]: record for record in read_metrics(tmp_path / "metrics.jsonl")}
    for kind in ("dev", "averaged"):
        assert (records[kind]["translated"], "bleu" in records[kind]) == (100, True)


def test_the_same_parameters_are_scored_once(
    task: TranslationTask,
    searched: list[tuple[list[str], SearchOptions]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    losses = []
    real = translation.translation_loss
    monkeypatch.setattr(translation, "translation_loss", lambda *each: losses.append(each) or real(*each))
    first = task.validate()
    batches = len(losses)
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter.copy_(parameter.clone())  # like the average of a single checkpoint
    assert task.validate() == first
    assert (len(losses), len(searched)) == (batches, 1)
    final = task.validate(final=True)  # with other search options
    assert (final["loss"], len(losses), len(searched)) == (first["loss"], batches, 2)
    with torch.no_grad():
        next(task.model.parameters()).add_(0.125)
    assert task.validate()["loss"] != first["loss"]
    assert (len(losses), len(searched)) == (2 * batches, 3)


def test_one_search_serves_both_where_it_is_the_same(
    toy: Toy, searched: list[tuple[list[str], SearchOptions]], tmp_path: Path
) -> None:
    """The last validation and the one of the average of that single checkpoint record the same loss, too."""
    config = Config.load(toy.config, ["subwords.dropout=0", "training.max_steps=1", "decoding.beam=1"])
    train(config, tmp_path, quiet=True)
    dev, averaged = (r for r in read_metrics(tmp_path / "metrics.jsonl") if r["kind"] != "train")
    assert dev["loss"] == averaged["loss"]
    assert len({options for _, options in searched}) == len(searched)


def test_the_best_bleu_is_one_of_all_pairs(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ["data.dev_pairs=150", "subwords.dropout=0", "training.best_by=bleu", "training.max_steps=2"]
    config = Config.load(toy.config, [*changes, "training.validate_every=1", "training.patience=1"])
    early = train(config, tmp_path / "early", quiet=True).progress
    assert (early.step, early.best, early.stale) == (2, None, 0)
    assert not (tmp_path / "early" / "best").exists()
    monkeypatch.setattr(translation, "_UNTRAINED", 1e9)
    later = train(config, tmp_path / "later", quiet=True).progress
    assert later.best is not None


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=40), st.integers(0, 10)
)
def test_usual_lengths_hold_for_nearly_all_pairs(pairs: list[tuple[int, int]], margin: int) -> None:
    sources, targets = np.array(pairs, np.int32).T
    factor = usual_lengths(sources, targets, margin)
    options = SearchOptions(length_factor=factor, extra_length=margin)
    within = [target <= options.limit(source) + 1 for source, target in pairs]
    assert np.mean(within) >= 0.9  # with so few pairs the quantile is interpolated
    assert factor >= targets.sum() / sources.sum() - 1e-9


@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_entropy_is_its_definition(kind: Any) -> None:
    assert entropy(np.array([5, 6, 7, 5], kind), {}) == pytest.approx(1.5 * math.log(2))
    assert entropy(np.array([5, 6], kind), {3: 2}) == pytest.approx(1.5 * math.log(2))
    assert entropy(np.array([5], kind), {}) == 0


@given(st.integers(1, 400), st.floats(0.01, 9), st.integers(0, 60), st.integers(1, 300) | st.none())
def test_a_limit_is_its_definition(length: int, factor: float, extra: int, most: int | None) -> None:
    limit = SearchOptions(length_factor=factor, extra_length=extra, max_length=most).limit(length)
    assert limit == max(1, min(math.ceil(length * factor) + extra, math.inf if most is None else most + 1))


def test_one_changed_bit_invalidates_the_cached_scores() -> None:
    model = torch.nn.Linear(2, 1)
    cache, calls = ScoreCache(model), []

    def measure() -> dict[str, float]:
        calls.append(1)
        return {"loss": float(len(calls))}

    assert [cache.once(key, measure)["loss"] for key in "aaba"] == [1, 1, 2, 1]
    with torch.no_grad():
        model.weight[0, 1] = torch.nextafter(model.weight[0, 1], torch.tensor(9.0))
    cache.once("b", measure)["loss"] = 9.0  # changes only a copy
    assert [cache.once(key, measure)["loss"] for key in "ba"] == [3, 4]


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
    batch = next(iter(kind.task(config, prepared, model).batches(0, 1)))
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

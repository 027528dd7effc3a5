"""Traces of GPT- and BERT-type models against forward passes of the models themselves."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.analysis.difference import word_changes
from headwise.analysis.head_arithmetic import head_arithmetic
from headwise.analysis.interventions import Copies, parse_interventions
from headwise.analysis.language_models import CONTINUED, LanguageModelTracer, MaskedModelTracer, TextTracer
from headwise.analysis.terminal import describe
from headwise.decoding.generation import Generator
from headwise.engine.options import GenerationOptions
from headwise.errors import ConfigError
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.recording import recording
from language_model_run import make_language_model_run, make_masked_model_run

TEXT = "the cat sat"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> LanguageModelTracer:
    return LanguageModelTracer(
        Generator.load(make_language_model_run(tmp_path_factory.mktemp("runs") / "writer"), device="cpu")
    )


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> MaskedModelTracer:
    run = make_masked_model_run(tmp_path_factory.mktemp("runs") / "masked")
    return MaskedModelTracer.load(run, "cpu")


def test_the_continuation_is_the_greedy_one_and_attention_that_of_one_pass(
    writer: LanguageModelTracer,
) -> None:
    trace = writer.trace(TEXT)
    greedy = writer.generator.generate(TEXT, GenerationOptions(temperature=0, max_tokens=CONTINUED))[0]
    assert trace.text == TEXT + greedy
    assert trace.forced is not None
    model = writer.generator.model
    with torch.no_grad(), recording(model) as records:
        hidden = model(torch.tensor([trace.forced.reads.ids]))
        expected = model.project(hidden)[0].log_softmax(-1)
    ids = trace.forced.target.ids
    assert np.allclose(trace.forced.log_probabilities, expected[range(len(ids)), list(ids)], atol=1e-5)
    weights = torch.stack([entries[0][0] for entries in records.weights.values()]).numpy()
    assert np.allclose(trace.forced.attention["decoder"], weights, atol=1e-6)
    assert trace.hypotheses[0].log_probability == pytest.approx(sum(trace.forced.log_probabilities))


def test_a_prefix_language_model_is_shown_without_a_prefix_and_says_so(
    writer: LanguageModelTracer, tmp_path: Path
) -> None:
    run = make_language_model_run(tmp_path / "prefix", prefix=True)
    trace = LanguageModelTracer(Generator.load(run, device="cpu")).trace(TEXT)
    assert trace.forced is not None
    assert not np.triu(trace.forced.attention["decoder"], 1).any()
    assert "with a prefix of no tokens; headwise predict reads a prompt as a prefix" in trace.notes[0]
    assert not writer.trace(TEXT).notes


def test_masks_are_filled_and_counted_alone(masked: MaskedModelTracer) -> None:
    trace = masked.trace("the <mask> sat on the <mask>.")
    assert trace.forced is not None
    reads, target = trace.source.ids, trace.forced.target.ids
    mask = masked.vocabulary.symbol("<mask>")
    places = [i for i, number in enumerate(reads) if number == mask]
    assert len(places) == 2
    assert [i for i in range(len(reads)) if reads[i] != target[i]] == places
    stack = masked.trained
    with torch.no_grad():
        hidden = stack(torch.tensor([reads]))[0]
        scores = stack.head(hidden, stack.encoder.embedding.weight).log_softmax(-1)  # type: ignore[operator, union-attr]
    assert trace.hypotheses[0].log_probability == pytest.approx(
        sum(float(scores[i, target[i]]) for i in places), abs=1e-5
    )


def test_what_a_word_of_a_masked_text_attended_to_is_printed(masked: MaskedModelTracer) -> None:
    trace = masked.trace("the <mask>at sat")
    lines = describe(trace, word="2")
    start = next(i for i, line in enumerate(lines) if line.startswith("Encoder self-attention while"))
    weights = [float(line.split()[-1]) for line in lines[start + 1 : start + 1 + len(trace.source.words)]]
    assert sum(weights) == pytest.approx(1, abs=0.005 * len(weights))


def test_a_word_is_found_as_it_is_written(writer: LanguageModelTracer, masked: MaskedModelTracer) -> None:
    trace = writer.trace(TEXT)
    assert trace.source.words[:2] == ("the", "cat")
    assert any("while 'cat' was predicted" in line for line in describe(trace, word="cat"))
    assert masked.read("the <mask> 7at")[0].words == ("<s>", "the", " ", "<mask>", " ", "<unk>", "at", "</s>")


@pytest.mark.parametrize("kind", ["writer", "masked"])
def test_a_silenced_head_equals_one_without_output(kind: str, request: pytest.FixtureRequest) -> None:
    tracer: TextTracer = request.getfixturevalue(kind)
    trace = tracer.trace(TEXT)
    assert trace.forced is not None
    ids = trace.forced.target.ids
    part = tracer.part
    silent = tracer.force(TEXT, ids, parse_interventions([f"silence:{part}.1.2"]))
    other = copy.copy(tracer)
    other.copies = Copies(copy.deepcopy(tracer.trained))
    attention = next(m for m in other.trained.modules() if isinstance(m, MultiHeadAttention))
    with torch.no_grad():
        attention.output.weight[:, 8:] = 0
    assert np.allclose(silent.log_probabilities, other.force(TEXT, ids).log_probabilities, atol=1e-5)
    assert silent.log_probabilities != trace.forced.log_probabilities
    assert tracer.force(TEXT, ids).log_probabilities == trace.forced.log_probabilities


@pytest.mark.parametrize("kind", ["writer", "masked"])
def test_products_recombine_to_the_weights(kind: str, request: pytest.FixtureRequest) -> None:
    tracer: TextTracer = request.getfixturevalue(kind)
    trace = tracer.trace(TEXT)
    assert trace.forced is not None
    found = head_arithmetic(tracer.record(TEXT, trace.forced.target.ids), tracer.part, 0, 1, 3)
    row = trace.forced.attention[tracer.part][0, 1, 3]
    scores = np.array(found.q) @ np.array(found.k).T / np.sqrt(8)
    weights = np.exp(scores) * np.array(found.seen)
    assert np.allclose(weights / weights.sum(), row, atol=1e-5)
    assert found.key_pieces == trace.forced.reads.pieces
    assert sum(found.seen) == (4 if kind == "writer" else len(found.seen))


def test_knobs_of_a_single_stack(writer: LanguageModelTracer, masked: MaskedModelTracer) -> None:
    before = masked.trace("a cat on the mat")
    ids = before.hypotheses[0].ids
    # Without positions, tokens in another order are the same tokens.
    change = parse_interventions(["no-positions:*"])
    one = masked.force("the cat", masked.read("the cat")[0].ids, change)
    words = masked.force("cat the", masked.read("cat the")[0].ids, change)
    assert sorted(np.round(one.log_probabilities, 4)) == sorted(np.round(words.log_probabilities, 4))
    shuffled = masked.force("a cat on the mat", ids, parse_interventions(["shuffle-positions:encoder@1"]))
    assert shuffled.log_probabilities != before.hypotheses[0].token_log_probabilities
    text = writer.trace(TEXT)
    unmasked = writer.trace(TEXT, parse_interventions(["no-mask:decoder.*"]))
    assert unmasked.forced is not None
    assert (unmasked.forced.attention["decoder"] > 0).all()
    assert word_changes(text.text, text.text)[0].kind == "same"


@pytest.mark.parametrize("change", ["prefix:a", "checkpoint:0", "silence:cross.1.1", "no-mask:decoder.1"])
def test_what_a_masked_model_lacks_is_said(masked: MaskedModelTracer, change: str) -> None:
    with pytest.raises(ConfigError, match="intervention"):
        masked.trace(TEXT, parse_interventions([change]))


def test_bad_targets_and_long_texts(writer: LanguageModelTracer, masked: MaskedModelTracer) -> None:
    with pytest.raises(ConfigError, match="as many tokens"):
        masked.force(TEXT, [5, 6])
    with pytest.raises(ConfigError, match="ids below"):
        writer.force(TEXT, [10**6])
    for tracer in (writer, masked):
        trace = tracer.trace("the cat " * 60)
        assert "are looked into" in trace.notes[0]
        assert len(trace.source.ids) <= tracer.longest
    assert writer.trace("").forced is not None

"""Traces against an independent forward pass, the search and forced decoding; interventions; products of a head."""

from __future__ import annotations

import copy
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwise.analysis.difference import difference, word_changes
from headwise.analysis.head_arithmetic import head_arithmetic
from headwise.analysis.interventions import Intervention, intervening, parse_interventions
from headwise.analysis.trace import Trace
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.translator_model import with_model
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.learn import from_scratch
from headwise.models.transformer import Transformer
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.recording import private_copy, recording
from headwise.text.tokens.subwords import EOS
from translator_run import ATTENTION, ENGLISH, make_run

TEXT = ENGLISH[0]
HEADS = [(part, layer, head) for part in ("encoder", "decoder", "cross") for layer in (0, 1) for head in (0, 1)]


@pytest.fixture(scope="module")
def trace(tracer: TranslationTracer) -> Trace:
    return tracer.trace(TEXT)


def forced(trace: Trace):
    assert trace.forced is not None
    return trace.forced


# ------------------------------------------------------------------------------- an independent forward pass


def test_what_is_shown_equals_an_independent_forward_pass(tracer: TranslationTracer, trace: Trace) -> None:
    model = tracer.trained
    assert isinstance(model, Transformer)
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    scratch = from_scratch.Transformer(weights, 2, 2, model.config.heads)
    log_probs = scratch.log_probabilities(trace.source.ids, forced(trace).reads.ids)
    for part, shown in forced(trace).attention.items():
        expected = np.stack([scratch.trace[f"{ATTENTION[part].format(n)}.weights"] for n in (0, 1)])
        assert np.allclose(shown, expected, atol=1e-5), part
        assert np.allclose(shown.sum(-1), 1.0, atol=1e-5)
    ids = forced(trace).target.ids
    assert np.allclose(forced(trace).log_probabilities, log_probs[np.arange(len(ids)), list(ids)], atol=1e-4)
    for row, others in zip(log_probs, forced(trace).alternatives, strict=True):
        assert [other.id for other in others] == np.argsort(-row)[:5].tolist()
    assert (forced(trace).attention["decoder"][..., ~np.tri(len(ids), dtype=bool)] == 0).all()


# --------------------------------------------------------------------------------------- search and forced reading


def test_the_best_hypothesis_is_the_translators(tracer: TranslationTracer, trace: Trace) -> None:
    (translation,) = tracer.translator.translate([TEXT])
    assert trace.text == translation.text
    assert trace.hypotheses[0].score == pytest.approx(translation.score, abs=1e-5)
    assert forced(trace).log_probability == pytest.approx(translation.log_probability, abs=1e-4)


def test_nodes_add_up_to_their_scores(trace: Trace) -> None:
    for place, node in enumerate(trace.tree):
        assert len(trace.path(place)) == node.length
        gain, parent = 0.0, place
        while parent is not None:
            gain += trace.tree[parent].token_log_probability
            parent = trace.tree[parent].parent
        assert node.log_probability == pytest.approx(gain, abs=1e-4)
        assert node.length_penalty == pytest.approx(((5 + node.length) / 6) ** trace.alpha)
        assert node.score == pytest.approx(node.log_probability / node.length_penalty)
    for rank, hypothesis in enumerate(trace.hypotheses):
        assert trace.path(hypothesis.node) == (*hypothesis.ids, EOS)
        assert trace.tree[hypothesis.node].rank == rank
    assert [one.score for one in trace.hypotheses] == sorted((one.score for one in trace.hypotheses), reverse=True)


def test_the_attention_of_any_hypothesis_is_that_of_decoding_it_step_by_step(
    tracer: TranslationTracer, trace: Trace
) -> None:
    model = tracer.trained
    for node in (trace.hypotheses[-1].node, len(trace.tree) // 2):
        path = trace.path(node)
        read = tracer.force(TEXT, path)
        source = torch.tensor([trace.source.ids])
        with torch.inference_mode(), recording(model) as records:
            state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
            steps = [model.step(torch.tensor([token]), state)[0] for token in read.reads.ids]
        for layer in (0, 1):
            cross = torch.cat(records.weights[f"decoder.{layer}.cross_attention"], dim=2)[0]
            assert np.allclose(read.attention["cross"][layer], cross.numpy(), atol=1e-5)
            for step, own in enumerate(records.weights[f"decoder.{layer}.self_attention"]):
                assert np.allclose(read.attention["decoder"][layer, :, step, : step + 1], own[0, :, 0], atol=1e-5)
        gains = [float(step[0, token]) for step, token in zip(steps, path, strict=True)]
        assert np.allclose(read.log_probabilities, gains, atol=1e-4)
        assert sum(gains) == pytest.approx(trace.tree[node].log_probability, abs=1e-3)


def test_a_rank_or_a_target_is_read_in_place_of_the_best(tracer: TranslationTracer, trace: Trace) -> None:
    second = tracer.trace(TEXT, hypothesis=1)
    assert forced(second).target.ids == (*trace.hypotheses[1].ids, EOS)
    assert tracer.trace(TEXT, target="Zwei Hunde").forced.target.text == "Zwei Hunde"  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=r"one of the 3 that were found, found rank 4"):
        tracer.trace(TEXT, hypothesis=3)
    with pytest.raises(ConfigError, match="expected ids below"):
        tracer.force(TEXT, [5, 10**6])
    with pytest.raises(ConfigError, match="from 1 to"):
        tracer.force(TEXT, [])


def test_json_holds_the_trace(trace: Trace) -> None:
    record = json.loads(trace.dumps())
    assert record["schema"] == 1
    assert record["source"]["words"] == [*TEXT.split(), "</s>"]
    for part, weights in forced(trace).attention.items():
        assert np.allclose(np.array(record["forced"]["attention"][part]), weights, atol=1e-6)
    assert len(record["tree"]) == len(trace.tree)
    shapes = {part: weights.shape for part, weights in forced(trace).attention.items()}
    assert trace.to_json(np.shape)["forced"]["attention"] == shapes


def test_words_are_sums_over_columns_and_means_over_rows(trace: Trace) -> None:
    grid, words = trace.attention_map("cross"), trace.attention_map("cross", words=True)
    assert words.columns == trace.source.words
    target = forced(trace).target
    for word in range(len(target.words)):
        rows = [row for row, number in enumerate(target.word_of) if number == word]
        for column in range(len(trace.source.words)):
            pieces = [piece for piece, number in enumerate(trace.source.word_of) if number == column]
            expected = grid.weights[:, :, rows][:, :, :, pieces].sum(-1).mean(-1)
            assert np.allclose(words.weights[:, :, word, column], expected, atol=1e-6)


@pytest.mark.parametrize("text", ["", "  \n ", "<script>alert('x')</script>", "שלום עולם", "漢a 🙂", "a man " * 300])
def test_odd_texts_are_traced(tracer: TranslationTracer, text: str) -> None:
    trace = tracer.trace(text)
    json.loads(trace.dumps())
    if text.strip():
        assert len(trace.source.ids) <= tracer.longest + 1
        assert trace.hypotheses
    else:
        assert trace.forced is None
        assert trace.text == ""
    notes = [note.partition(":")[0] for note in trace.notes]
    cut = "the text has 900 subwords, and the first 39 are looked into"
    unknown = "the model spells by single letters, or not at all"
    assert notes == (
        ["read as"] * any(c in text for c in "<ש")
        + [cut] * (len(text) > 1000)
        + [unknown] * any(c in text for c in "<ש漢")
    )


def test_an_ensemble_is_refused(tracer: TranslationTracer) -> None:
    translator = with_model(tracer.translator, Ensemble([tracer.trained, tracer.trained]))
    with pytest.raises(ConfigError, match="found an ensemble"):
        TranslationTracer(translator)


# ------------------------------------------------------------------------------------------------ interventions


def interventions() -> st.SearchStrategy[Intervention]:
    number = st.one_of(st.none(), st.integers(0, 20))
    parts = st.sampled_from(["encoder", "decoder", "cross"])
    plain = st.builds(Intervention, st.sampled_from(["silence", "uniform"]), parts, number, number)
    amount = st.builds(Intervention, st.sampled_from(["shuffle", "shift"]), parts, number, number, st.integers(-9, 9))
    zero = st.builds(Intervention, st.just("zero"), parts, number, number, number)
    word = st.text("aä:;@.*", min_size=1, max_size=5)
    every = st.one_of(st.none(), parts)
    others = st.one_of(
        st.builds(Intervention, st.just("only"), every, number, st.integers(0, 20)),
        st.builds(Intervention, st.just("no-scaling"), every, number, number),
        st.builds(
            Intervention,
            st.just("temperature"),
            every,
            number,
            number,
            temperature=st.sampled_from([0.25, 1.0, 2.5, 100.0]),
        ),
        st.builds(
            Intervention,
            st.sampled_from(["no-residual", "no-norm", "no-ffn"]),
            st.sampled_from(["encoder", "decoder", None]),
            number,
        ),
        st.builds(Intervention, st.just("no-mask"), st.just("decoder"), number),
        st.builds(Intervention, st.just("no-positions"), st.sampled_from(["encoder", "decoder", None])),
        st.builds(lambda n: Intervention("shuffle-positions", "encoder", amount=n), st.integers(0, 99)),
        st.builds(lambda n: Intervention("checkpoint", None, amount=n), st.integers(0, 10**8)),
    )
    said = st.builds(lambda text: Intervention("prefix", text=text), word)
    one = st.builds(lambda n, text: Intervention("word", amount=n, text=text), st.integers(0, 30), word)
    return st.one_of(plain, amount, zero, others, said, one)


@given(interventions())
def test_an_intervention_is_parsed_as_it_is_written(intervention: Intervention) -> None:
    assert Intervention.parse(str(intervention)) == intervention


@pytest.mark.parametrize(
    "text",
    [
        *("", "mute:cross.1.1", "silence:cross.0.1", "silence:cross.1", "shift:cross.1.1"),
        *("uniform:cross.1.1@2", "zero:cross.1.1@-1", "word:x:y", "prefix:"),
    ],
)
def test_an_invalid_intervention_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="intervention"):
        Intervention.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("silence:cross.3.1", "layer from 1 to 2, found 3"),
        ("silence:cross.1.9", "head from 1 to 2, found 9"),
        ("word:40:Hund", "expected a number up to"),
    ],
)
def test_an_intervention_on_a_missing_head_or_word_is_refused(
    tracer: TranslationTracer, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tracer.trace(TEXT, parse_interventions([text]))


@pytest.mark.parametrize(("part", "layer", "head"), HEADS)
def test_silencing_equals_a_head_without_its_part_of_the_output_weight(
    tracer: TranslationTracer, trace: Trace, part: str, layer: int, head: int
) -> None:
    path = trace.path(trace.hypotheses[0].node)
    silent = tracer.force(TEXT, path, parse_interventions([f"silence:{part}.{layer + 1}.{head + 1}"]))
    model = copy.deepcopy(tracer.trained)
    attention = model.get_submodule(ATTENTION[part].format(layer))
    assert isinstance(attention, MultiHeadAttention)
    with torch.no_grad():
        attention.output.weight[:, head * 8 : (head + 1) * 8] = 0
    masked = TranslationTracer(with_model(tracer.translator, model)).force(TEXT, path)
    assert np.allclose(silent.log_probabilities, masked.log_probabilities, atol=1e-5)
    assert not np.allclose(silent.log_probabilities, forced(trace).log_probabilities, atol=1e-5)


@pytest.mark.parametrize("change", ["uniform:*", "shift:*@-1", "shuffle:*@3", "zero:*@0", "silence:*"])
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_a_changed_search_is_a_changed_forced_decode(tracer: TranslationTracer, change: str, part: str) -> None:
    kind, _, amount = change.partition(":*")
    trace = tracer.trace(TEXT, parse_interventions([f"{kind}:{part}.*.1{amount}"]))
    assert forced(trace).log_probability == pytest.approx(trace.hypotheses[0].log_probability, abs=1e-3)
    weights = forced(trace).attention[part]
    if kind in ("uniform", "shift", "shuffle"):
        assert np.allclose(weights.sum(-1), 1.0, atol=1e-5)
    if part == "decoder":
        assert (weights[..., ~np.tri(weights.shape[2], dtype=bool)] == 0).all()


def test_what_each_change_does_to_a_row(tracer: TranslationTracer, trace: Trace) -> None:
    path = trace.path(trace.hypotheses[0].node)

    def rows(change: str) -> NDArray:
        return tracer.force(TEXT, path, parse_interventions([change])).attention["cross"][0, 0]

    before = forced(trace).attention["cross"][0, 0]
    columns = before.shape[1]
    assert np.allclose(rows("uniform:cross.1.1"), 1 / columns)
    assert np.allclose(rows("shift:cross.1.1@2"), np.roll(before, 2, axis=1), atol=1e-6)
    assert (rows("zero:cross.1.1") == 0).all()
    without = rows("zero:cross.1.1@3")
    assert (without[:, 3] == 0).all()
    assert np.allclose(np.delete(without, 3, 1), np.delete(before, 3, 1), atol=1e-6)
    shuffled = rows("shuffle:cross.1.1@5")
    assert np.allclose(np.sort(shuffled), np.sort(before), atol=1e-6)
    assert np.array_equal(shuffled, rows("shuffle:cross.1.1@5"))
    assert not np.allclose(shuffled, rows("shuffle:cross.1.1@6"), atol=1e-3)


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_a_key_whose_weight_has_underflowed_isnt_masked(tracer: TranslationTracer, trace: Trace, part: str) -> None:
    path = trace.path(trace.hypotheses[0].node)
    cold = f"temperature:{part}.1.1@0.0001"

    def weights(*changes: str) -> NDArray:
        return tracer.force(TEXT, path, parse_interventions([cold, *changes])).attention[part][0, 0]

    before = weights()
    seen = np.tri(*before.shape) if part == "decoder" else np.ones(before.shape)
    assert (before == 0).sum() > (seen == 0).sum()
    assert np.allclose(weights(f"uniform:{part}.1.1"), seen / seen.sum(1, keepdims=True))
    shifted = weights(f"shift:{part}.1.1@1")
    for row, was, count in zip(shifted, before, seen.sum(1).astype(int), strict=True):
        assert np.allclose(row[:count], np.roll(was[:count], 1))


def test_words_and_prefixes_are_forced(tracer: TranslationTracer) -> None:
    began = tracer.trace(TEXT, parse_interventions(["prefix:Zwei Hunde"]))
    assert began.text.startswith("Zwei Hunde")
    said = began.text.split()
    changed = tracer.trace(TEXT, parse_interventions(["prefix:Zwei Hunde", "word:2:Schnee"]))
    assert changed.text.split()[:3] == [*said[:2], "Schnee"]


def test_concurrent_interventions_do_not_affect_each_other_or_the_model(
    tracer: TranslationTracer, trace: Trace
) -> None:
    changes = ["silence:cross.*.*", "shuffle:encoder.*.*@1", "uniform:decoder.*.*", ""]
    wanted = [tracer.trace(TEXT, parse_interventions([change])).hypotheses for change in changes]
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda n: tracer.trace(TEXT, parse_interventions([changes[n % 4]])).hypotheses, range(12))
        )
    assert all(one == wanted[number % 4] for number, one in enumerate(found))
    assert wanted[3] == trace.hypotheses


def test_a_copy_shares_parameters_and_takes_its_own_probes(tracer: TranslationTracer) -> None:
    model = tracer.trained
    twin = private_copy(model)
    assert all(a is b for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    with intervening(twin, parse_interventions(["silence:cross.*.*"])):
        assert all(part.probe is None for part in model.modules() if isinstance(part, MultiHeadAttention))


def test_a_difference_names_words_and_what_the_old_translation_costs(tracer: TranslationTracer, trace: Trace) -> None:
    same = difference(tracer, trace, trace)
    assert not same.changed
    assert same.delta == pytest.approx(0.0, abs=1e-4)
    now = tracer.trace(TEXT, parse_interventions(["silence:cross.*.*"]))
    changed = difference(tracer, trace, now)
    assert changed.changed == (now.text != trace.text)
    again = tracer.force(TEXT, trace.path(trace.hypotheses[0].node), now.interventions)
    assert changed.before_now == pytest.approx(again.log_probability, abs=1e-4)
    assert [(c.kind, c.before, c.after) for c in word_changes("a b c", "a x c d")] == [
        ("same", ("a",), ("a",)),
        ("replaced", ("b",), ("x",)),
        ("same", ("c",), ("c",)),
        ("added", (), ("d",)),
    ]


# ----------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize(("part", "layer", "head"), HEADS)
def test_products_recombine_to_what_is_shown(
    tracer: TranslationTracer, trace: Trace, part, layer: int, head: int
) -> None:
    found = head_arithmetic(tracer.record(TEXT, forced(trace).target.ids), part, layer, head, 3)
    q, k, v = np.array(found.q), np.array(found.k), np.array(found.v)
    assert np.allclose(found.terms, q * k, atol=1e-6)
    assert np.allclose(found.dots, k @ q, atol=1e-5)
    assert np.allclose(found.scaled, k @ q / math.sqrt(8), atol=1e-5)
    scores = np.where(found.seen, found.scaled, -np.inf)
    assert np.allclose(found.softmax, np.exp(scores) / np.exp(scores).sum(), atol=1e-6)
    assert np.allclose(found.weights, forced(trace).attention[part][layer, head, 3], atol=1e-6)
    assert np.allclose(found.result, np.array(found.weights) @ v, atol=1e-6)
    other = head_arithmetic(tracer.record(TEXT, forced(trace).target.ids), part, layer, 1 - head, 3)
    assert np.allclose(np.add(found.part_of_output, other.part_of_output), found.output, atol=1e-5)
    json.dumps(found.to_json(0), allow_nan=False)
    assert found.to_json(2)["terms"] == [found.terms[2].tolist()]


def test_products_see_interventions_and_refuse_what_is_not_there(tracer: TranslationTracer, trace: Trace) -> None:
    ids = forced(trace).target.ids
    uniform = head_arithmetic(tracer.record(TEXT, ids, parse_interventions(["uniform:cross.1.1"])), "cross", 0, 0, 1)
    assert np.allclose(uniform.weights, 1 / len(trace.source.ids))
    assert not np.allclose(uniform.softmax, uniform.weights, atol=1e-4)
    for place in [("cross", 9, 0, 1), ("cross", 0, 9, 1), ("cross", 0, 0, 99)]:
        with pytest.raises(ConfigError, match="expected"):
            head_arithmetic(tracer.record(TEXT, ids), *place)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------- other architectures


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({"architecture": "recurrent", "recurrent": {"attention": "additive"}}, 1),
        ({"architecture": "convolutional"}, 2),
    ],
)
def test_models_with_cross_attention_alone_show_that(tmp_path: Path, changes: dict, layers: int) -> None:
    tracer = TranslationTracer(Translator.load(make_run(tmp_path / "run", **changes)))
    trace = tracer.trace(TEXT)
    assert list(forced(trace).attention) == ["cross"]
    assert forced(trace).attention["cross"].shape[:2] == (layers, 1)
    assert forced(trace).log_probability == pytest.approx(trace.hypotheses[0].log_probability, abs=1e-3)
    changed = tracer.trace(TEXT, parse_interventions(["uniform:cross.1.1"]))
    assert np.allclose(forced(changed).attention["cross"][0], 1 / len(trace.source.ids))
    with pytest.raises(ConfigError, match="model with encoder self-attention, found none"):
        tracer.trace(TEXT, parse_interventions(["silence:encoder.1.1"]))
    with pytest.raises(ConfigError, match=r"has \(cross\)"):
        trace.attention_map("encoder")
    with pytest.raises(ConfigError, match="multi-head attention"):
        head_arithmetic(tracer.record(TEXT, forced(trace).target.ids), "cross", 0, 0, 1)

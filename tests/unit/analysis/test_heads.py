"""Head roles on planted and random heads; importance and pruning against independent computations."""

from __future__ import annotations

import copy
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.analysis.heads.importance import (
    HeadPlace,
    Pairs,
    head_places,
    importance_by_gradient,
    importance_by_masking,
    loss,
    pruning_curve,
    random_order,
    removal_order,
)
from headwise.analysis.heads.measuring import Annotated, is_punctuation, measure_heads
from headwise.analysis.heads.roles import LinkCounts, TokenCounts, head_roles
from headwise.analysis.heads.similarity import SimilarityCounts
from headwise.analysis.heads.summary import draw_heads
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.nn.multihead import MultiHeadAttention
from headwise.text.tokens.subwords import EOS
from planted_heads import Planted, antecedent, previous, subject
from translator_run import ATTENTION, ENGLISH, GERMAN, make_run
from world import world_trees


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(make_run(tmp_path_factory.mktemp("runs") / "de", seed=1, max_length=80))


@pytest.fixture(scope="module")
def pairs() -> list[Annotated]:
    """The first English sentences of the built-in world's development set, with their trees."""
    return [Annotated.of_tree(tree, tokenized=True) for tree in world_trees("dev.en.conllu", 120)]


def test_sentences_that_are_too_long_to_measure_are_left_out(tmp_path: Path) -> None:
    translator = Translator.load(make_run(tmp_path / "run", max_length=4096))
    long, short = (Annotated.of("a man sleeps . " * times) for times in (400, 1))
    assert 2048 < len(translator.subwords.encode_source(long.sentence.text)) < 4096
    assert [report.sentences for report in measure_heads(translator, [long, short], [short, short])] == [1, 1, 1]
    with pytest.raises(ConfigError, match=r"of at most 2048 subwords \(model.max_length=4096\), found none"):
        measure_heads(translator, [short], [long])


# ------------------------------------------------------------------------------------------------- planted heads


def test_a_head_on_the_previous_token_is_found(translator: Translator, pairs: list[Annotated]) -> None:
    sentences = pairs[:40]
    first = Planted(translator, sentences, [previous, subject]).measure(sentences).heads[0]
    rows = first.position.n
    assert rows == sum(len(translator.subwords.encode_source(one.sentence.text)) for one in sentences)
    assert first.offset == -1
    assert first.position.rate == pytest.approx(
        1 - len(sentences) / rows
    )  # each sentence's first token attends to itself
    assert "position -1" in first.roles
    assert first.entropy.rate == 0.0
    assert first.confidence.rate == 1.0


def test_a_head_on_the_subject_is_found(translator: Translator, pairs: list[Annotated]) -> None:
    sentences = pairs
    report = Planted(translator, sentences, [subject, previous]).measure(sentences)
    found = next(one for one in report.relations if (one.relation, one.direction) == ("nsubj", "head"))
    assert (found.layer, found.head) == (0, 0)
    assert found.found.rate > 0.99
    assert found.found.baselines["offset"] < 0.9
    assert found.found.n >= 20
    assert "head → nsubj" in report.heads[0].roles
    assert "head → nsubj" not in report.heads[1].roles


def test_a_head_on_the_antecedent_is_found(translator: Translator, pairs: list[Annotated]) -> None:
    sentences = [one for one in pairs if one.coreference]
    report = Planted(translator, sentences, [previous, antecedent]).measure(sentences)
    found = report.heads[1].coreference
    assert found is not None
    assert found.found.rate > 0.99
    assert "coreference" in report.heads[1].roles


def test_a_head_on_the_rarest_word_is_found(translator: Translator, pairs: list[Annotated]) -> None:
    sentences = pairs[:40]
    counts = Counter(i for one in sentences for i in translator.subwords.encode_source(one.sentence.text))

    def rarest(ids: list[int], spans: list[list[int]], one: Annotated) -> list[int]:
        return [min(range(len(ids) - 1), key=lambda place: counts[ids[place]])] * len(ids)

    heads = Planted(translator, sentences, [rarest, previous]).measure(sentences).heads
    assert heads[0].rare.rate == 1.0
    assert heads[0].rare.baselines["chance"] < 0.5
    assert "rare word" in heads[0].roles
    assert "rare word" not in heads[1].roles


def test_a_head_on_separators_is_found(translator: Translator, pairs: list[Annotated]) -> None:
    """By turns the end symbol and the sentence's punctuation, or only words."""
    sentences = pairs[:20]
    pieces = translator.subwords.source_pieces

    def separator(ids: list[int], spans: list[list[int]], one: Annotated) -> list[int]:
        marks = [place for place, piece in enumerate(pieces(ids[:-1])) if piece.strip("▁") in (".", ",", "?", "!")]
        return [marks[0] if query % 2 and marks else len(ids) - 1 for query in range(len(ids))]

    def first_word(ids: list[int], spans: list[list[int]], one: Annotated) -> list[int]:
        return [0] * len(ids)

    heads = Planted(translator, sentences, [separator, first_word]).measure(sentences).heads
    assert heads[0].separator.rate == 1.0
    assert 0 < heads[0].separator.baselines["uniform"] < 0.5
    assert 0 < heads[0].end.rate < 1
    assert "separator" in heads[0].roles
    assert heads[1].separator.rate == 0.0
    assert "separator" not in heads[1].roles


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        *((piece, True) for piece in ("▁.", ",", "▁«", "...")),
        *((piece, False) for piece in ("▁a.", "▁", "1", "")),
    ],
)
def test_punctuation_is_a_separator(piece: str, expected: bool) -> None:
    assert is_punctuation(piece) == expected


def texts(count: int, words: int = 30) -> list[list[int]]:
    draw = np.random.default_rng(3)
    return [draw.integers(words, size=draw.integers(4, 15)).tolist() for _ in range(count)]


def similarities(embeddings: np.ndarray, ids: list[int]) -> np.ndarray:
    vectors = embeddings[ids] / np.linalg.norm(embeddings[ids], axis=1, keepdims=True)
    return vectors @ vectors.T


@pytest.mark.parametrize("causal", [False, True])
def test_the_similarity_of_embeddings_counts_beyond_position(causal: bool) -> None:
    """Against a regression on indicators of the offsets, whose residuals are correlated."""
    draw = np.random.default_rng(1)
    embeddings = draw.normal(size=(30, 6)).astype(np.float32)
    rows = [*texts(60), texts(1)[0][:1]]  # of one token, there is no pair
    counts = SimilarityCounts(embeddings, (i for ids in rows for i in ids), causal=causal)
    offsets, cosines, weights = [], [], []
    for ids in rows:
        n = len(ids)
        given = draw.dirichlet(np.ones(n), size=(1, 2, n))
        given[0, 1] = np.exp(2 * similarities(embeddings, ids)) * (1 + np.eye(n, k=-1))
        counts.add(given.astype(np.float32), ids)
        for query in range(n):
            for key in range(query if causal else n):
                if key != query:
                    offsets.append(key - query)
                    cosines.append(similarities(embeddings, ids)[query, key])
                    weights.append(given[0, :, query, key] * (query + 1 if causal else n))
    indicators = np.equal.outer(offsets, np.unique(offsets)).astype(float)

    def residual(values: np.ndarray) -> np.ndarray:
        return values - indicators @ np.linalg.lstsq(indicators, values, rcond=None)[0]

    correlations = counts.correlations()
    assert correlations is not None
    for head in (0, 1):
        expected = np.corrcoef(residual(np.array(weights)[:, head]), residual(np.array(cosines)))[0, 1]
        assert correlations[0][0, head] == pytest.approx(expected, abs=1e-4)
    assert counts.pairs == len(offsets)


def test_a_head_on_similar_tokens_is_found_and_one_on_positions_is_not() -> None:
    draw = np.random.default_rng(2)
    embeddings = draw.normal(size=(30, 6)).astype(np.float32)
    rows = texts(80)
    tokens, similarity = TokenCounts(), SimilarityCounts(embeddings, range(30))
    for ids in rows:
        n = len(ids)
        close = np.exp(3 * similarities(embeddings, ids))
        by_offset = np.exp(-np.abs(np.subtract.outer(range(n), range(n)) + 1.0))
        given = np.stack([close, by_offset, draw.dirichlet(np.ones(n), size=n)])[None]
        given /= given.sum(-1, keepdims=True)
        tokens.add(given.astype(np.float32), [1.0] * n, end=-1, separators=[False] * n)
        similarity.add(given.astype(np.float32), ids)
    close, by_offset, random = head_roles(tokens, LinkCounts(), LinkCounts(), similarity)
    assert "semantic similarity" in close.roles
    for head in (by_offset, random):
        assert head.similarity is not None
        assert abs(head.similarity.rate) < 0.1
        assert "semantic similarity" not in head.roles


def test_random_heads_are_at_chance(pairs: list[Annotated]) -> None:
    draw = np.random.default_rng(7)
    tokens, links = TokenCounts(), LinkCounts()
    sentences = pairs * 5
    for one in sentences:
        words = len(one.sentence.words)
        weights = draw.dirichlet(np.ones(words), size=(2, 4, words)).astype(np.float32)
        separators = [False] * (words - 1) + [True]
        tokens.add(weights, draw.permutation(words), end=-1, separators=separators)  # type: ignore[arg-type]
        links.add(weights, one.edges)
    for head in head_roles(tokens, links, LinkCounts()):
        assert head.roles == ()
        near = 4 * math.sqrt(0.25 / head.position.n)
        assert head.position.rate == pytest.approx(head.position.baselines["chance"], abs=near)
        assert head.rare.rate == pytest.approx(head.rare.baselines["chance"], abs=near)
        for one in (links.best_of_head(head.layer, head.head, links.relations()), head.relation):
            assert one is not None
            assert one.found.rate == pytest.approx(one.found.baselines["chance"], abs=4 * math.sqrt(0.25 / one.found.n))


def test_a_causal_part_has_no_links_to_later_words() -> None:
    links = LinkCounts(causal=True)
    weights = np.zeros((1, 1, 3, 3), np.float32)
    weights[0, 0, 2, 0] = 1.0
    for _ in range(2):
        links.add(weights, [(2, 0, "obj"), (0, 1, "det")])
    cases = {key: [(offset, bool(found[0, 0])) for _, offset, _, found in cases] for key, cases in links.cases.items()}
    assert cases == {("obj", "dependent"): [(-2, True)] * 2, ("det", "head"): [(-1, True)] * 2}


def test_all_parts_are_measured_and_drawn(translator: Translator, pairs: list[Annotated], tmp_path: Path) -> None:
    sentences = pairs[:10]
    reports = measure_heads(
        translator, sentences, [Annotated.of_tree(tree) for tree in world_trees("dev.de.conllu", 10)]
    )
    assert [report.part for report in reports] == ["encoder", "decoder", "cross"]
    assert all(len(report.heads) == 4 and report.sentences == 10 for report in reports)
    draw_heads(reports, tmp_path / "heads.png", dict.fromkeys(head_places(pytorch_model(translator)), 0.1))
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")


# ---------------------------------------------------------------------------------------------------- importance


@pytest.fixture(scope="module")
def encoded(translator: Translator) -> Pairs:
    return Pairs.encode(translator, ENGLISH, GERMAN)


def test_the_loss_is_the_scores(translator: Translator, encoded: Pairs) -> None:
    scored = translator.score(ENGLISH, GERMAN)
    total = -sum(one.log_probability for one in scored)
    assert loss(pytorch_model(translator), encoded) == pytest.approx(total / encoded.tokens, rel=1e-5)


def test_masking_is_the_loss_without_the_heads_part_of_the_output_weight(
    translator: Translator, encoded: Pairs
) -> None:
    found = importance_by_masking(translator, encoded)
    whole = loss(pytorch_model(translator), encoded)
    assert set(found) == set(head_places(pytorch_model(translator)))
    for place in list(found)[::5]:
        model = copy.deepcopy(pytorch_model(translator))
        attention = model.get_submodule(ATTENTION[place.part].format(place.layer))
        with torch.no_grad():
            attention.output.weight[:, place.head * 8 : (place.head + 1) * 8] = 0  # type: ignore[union-attr,index]
        assert found[place] == pytest.approx(loss(model, encoded) - whole, abs=1e-5)


def test_the_gradient_is_that_of_scaling_the_heads_part_of_the_output_weight(translator: Translator) -> None:
    """A factor ξ on a head is a factor on its columns of W^O: ∂L/∂ξ = Σ W ∂L/∂W over them."""
    found = importance_by_gradient(translator, Pairs.encode(translator, ENGLISH[:2], GERMAN[:2]))
    slopes: dict[HeadPlace, list[float]] = {place: [] for place in found}
    for text, target in zip(ENGLISH[:2], GERMAN[:2], strict=True):
        model = copy.deepcopy(pytorch_model(translator))
        ids = [[*translator.subwords.encode_source(text), EOS]]
        said = translator.subwords.encode_target(target)
        source, reads = torch.tensor(ids), torch.tensor([[2, *said]])
        hidden = model(source, torch.ones_like(source, dtype=torch.bool), reads)
        logits = model.project(hidden[0])
        torch.nn.functional.cross_entropy(logits, torch.tensor([*said, EOS])).backward()
        for place in found:
            attention = model.get_submodule(ATTENTION[place.part].format(place.layer))
            assert isinstance(attention, MultiHeadAttention)
            weight, columns = attention.output.weight, slice(place.head * 8, (place.head + 1) * 8)
            assert weight.grad is not None
            slopes[place].append(abs(float((weight.detach() * weight.grad)[:, columns].sum())))
    for place, each in slopes.items():
        assert found[place] == pytest.approx(sum(each) / 2, rel=1e-3, abs=1e-6)


# ------------------------------------------------------------------------------------------------------- pruning


def test_a_pruning_curve_is_reproducible_and_leaves_the_model_alone(translator: Translator, encoded: Pairs) -> None:
    before = copy.deepcopy(pytorch_model(translator).state_dict())
    order = removal_order(importance_by_gradient(translator, encoded))
    assert sorted(order) == sorted(head_places(pytorch_model(translator)))
    curves = [pruning_curve(translator, order, ENGLISH, GERMAN, points=3) for _ in range(2)]
    assert curves[0] == curves[1]
    assert [point.removed for point in curves[0]] == [0, 4, 8, 12]
    finest = pruning_curve(translator, order, ENGLISH[:1], GERMAN[:1], points=1000)
    assert [point.removed for point in finest] == [*range(13)]
    assert all(torch.equal(before[name], value) for name, value in pytorch_model(translator).state_dict().items())
    assert (
        random_order(pytorch_model(translator), 1)
        == random_order(pytorch_model(translator), 1)
        != random_order(pytorch_model(translator), 2)
    )


def test_empty_and_too_long_pairs_are_left_out(translator: Translator) -> None:
    assert Pairs.encode(translator, ["", "a", "a " * 200], ["x", "", "y"]).sources == []
    kept = Pairs.encode(translator, [ENGLISH[0]], [GERMAN[0]])
    assert kept.sources[0][-1] == EOS
    assert HeadPlace("cross", 0, 1) in head_places(pytorch_model(translator))
    assert str(HeadPlace("cross", 0, 1)) == "cross.1.2"

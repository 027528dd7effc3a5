"""Word-level cross-attention, alignments extracted from it, and its plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwise
from headwise.analysis.alignment import Rule, align, best_rule, error_rate
from headwise.analysis.attention import CrossAttention, SentenceWords, _by_words, cross_attention, overlap
from headwise.analysis.attribution import attribute
from headwise.analysis.picture import draw_cross_attention
from headwise.analysis.trace import Side as SideOfTrace
from headwise.engine.translator import Translator
from headwise.text.tokens.pair_vocabulary import Side
from multilingual_run import make_multilingual
from translator_run import ENGLISH, GERMAN, make_run

WORDS = st.lists(st.text("abcäß", min_size=1, max_size=5), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(make_run(tmp_path_factory.mktemp("runs") / "de"))


def attention(weights: list[list[float]]) -> CrossAttention:
    """Return attention of one layer with two identical heads."""
    rows, columns = len(weights), len(weights[0])
    array = np.array([[weights, weights]], np.float32)
    return CrossAttention(
        (*(f"s{i}" for i in range(columns - 1)), "</s>"), tuple(f"t{i}" for i in range(rows)), array, array
    )


def test_overlap_counts_shared_bytes() -> None:
    assert overlap(SentenceWords("müde.", ("müde", ".")), ["▁mü", "de", "."]).tolist() == [
        [4, 2, 0],
        [0, 0, 1],
    ]
    assert overlap(SentenceWords("abc", ("ab", "c")), ["▁a", "bc"]).tolist() == [[2, 1], [0, 1]]
    assert overlap(SentenceWords.of("a ü"), ["▁a", "▁", "<0xC3>", "<0xBC>"]).tolist() == [
        [2, 0, 0, 0],
        [0, 1, 1, 1],
    ]


def test_a_space_that_does_not_break_is_a_character_of_a_word_and_of_a_piece() -> None:
    number = SentenceWords("10\u00a0000 men", ("10\u00a0000", "men"))  # as a treebank may have it
    assert overlap(number, ["▁10", "\u00a0", "000", "▁men"]).tolist() == [[3, 2, 3, 0], [0, 0, 0, 4]]
    assert overlap(SentenceWords.of("a\u00a0b cd"), ["▁a", "\u00a0b", "▁c", "d"]).tolist() == [
        [2, 0, 0, 0],
        [0, 3, 0, 0],
        [0, 0, 2, 1],
    ]


def test_an_unknown_subword_reaches_to_the_next_known_character() -> None:
    unknown = SentenceWords("漢字 ab 漢", ("漢字", "ab", "漢"))
    assert overlap(unknown, ["▁", "<unk>", "▁ab", "▁", "<unk>"]).tolist() == [
        [1, 6, 0, 0, 0],
        [0, 0, 3, 0, 0],
        [0, 0, 0, 1, 3],
    ]


@given(words=WORDS, cuts=st.sets(st.integers(1, 40)))
def test_overlap_loses_no_byte_however_the_text_is_cut(words: list[str], cuts: set[int]) -> None:
    text = "".join(f" {word}" for word in words)
    ends = sorted({cut for cut in cuts if cut < len(text)} | {len(text)})
    pieces = [text[start:end].replace(" ", "▁") for start, end in zip([0, *ends], ends, strict=False)]
    shared = overlap(SentenceWords.of(text[1:]), pieces)
    assert shared.sum(axis=1).tolist() == [len(word.encode()) + 1 for word in words]
    assert shared.sum(axis=0).tolist() == [len(piece.replace("▁", " ").encode()) for piece in pieces]


def test_subwords_become_words_by_sum_over_columns_and_mean_over_rows() -> None:
    # Target: one word of two subwords. Source: a word of two subwords, a word of one, and the end symbol.
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.0, 0.0, 1.0]], np.float32)
    joined = _by_words(
        weights[None, None],
        SentenceWords("abc d", ("abc", "d")),
        SentenceWords("xy", ("xy",)),
        ["▁ab", "c", "▁d"],
        ["▁x", "y"],
    )
    assert joined.source_words == ("abc", "d", "</s>")
    assert joined.weights[0, 0].tolist() == [pytest.approx([0.45, 0.2, 0.35])]


def test_cross_attention_of_a_model_sums_to_one(translator: Translator) -> None:
    sources, targets = [SentenceWords.of(t) for t in ENGLISH], [SentenceWords.of(t) for t in GERMAN]
    for found, source, target in zip(cross_attention(translator, sources, targets), sources, targets, strict=True):
        assert found.source_words == (*source.words, "</s>")
        assert found.weights.shape[2:] == (len(target.words), len(source.words) + 1)
        assert np.allclose(found.weights.sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("tagged", ["source", "target"])
def test_a_language_code_before_a_text_is_no_part_of_its_words(tagged: Side, tmp_path: Path) -> None:
    run = headwise.load(make_multilingual(tmp_path, tagged))
    seen = run.explain(ENGLISH[0], target=ENGLISH[1])
    forced = seen.trace.forced
    assert forced is not None

    def places(side: SideOfTrace, words: tuple[str, ...]) -> list[list[int]]:
        numbers = [side.words.index(word) for word in words]
        return [[place for place, number in enumerate(side.word_of) if number == word] for word in numbers]

    source, target = SentenceWords.of(ENGLISH[0]), SentenceWords.of(ENGLISH[1])
    (found,) = cross_attention(run.translator, [source], [target])
    expected = [
        [seen.weights[:, :, rows][..., columns].sum(-1).mean(-1) for columns in places(seen.trace.source, source.words)]
        for rows in places(forced.target, target.words)
    ]
    np.testing.assert_allclose(found.weights[..., :-1], np.moveaxis(expected, (0, 1), (2, 3)), atol=1e-6)
    attention = attribute(run.tracer, ENGLISH[0], ENGLISH[1]).attention
    np.testing.assert_allclose(attention, found.weights[..., :-1].mean((0, 1)), atol=1e-6)
    named = overlap(SentenceWords.of(">>fra<< A cat"), [">>fra<<", "▁A", "▁cat"], [">>fra<<"])
    assert named.tolist() == [[8, 0, 0], [0, 2, 0], [0, 0, 4]]


def test_an_alignment_takes_the_largest_weight_that_is_not_the_end_symbols() -> None:
    found = attention([[0.2, 0.1, 0.7], [0.1, 0.8, 0.1]])
    assert align(found, Rule()) == {(0, 0), (1, 1)}
    assert align(attention([[1.0]]), Rule()) == frozenset()


def test_the_best_rule_is_the_one_with_the_fewest_errors() -> None:
    right, wrong = [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]], [[0.1, 0.9, 0.0], [0.9, 0.1, 0.0]]
    weights = np.array([[wrong, wrong], [wrong, right]], np.float32)
    found = [CrossAttention(("a", "b", "</s>"), ("x", "y"), weights, weights)]
    gold = [frozenset({(0, 0), (1, 1)})]
    rule = best_rule(found, gold)
    assert rule == Rule(layer=1, head=1)
    assert str(rule) == "layer 2, head 2"
    assert error_rate(found, gold, rule) == 0.0
    assert error_rate(found, gold, Rule(0)) == 1.0


def test_the_plot_is_a_png(tmp_path: Path) -> None:
    file = tmp_path / "attention.png"
    found = attention([[0.2, 0.1, 0.7], [0.1, 0.8, 0.1]])
    draw_cross_attention(found, file, title="one layer")
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size > 1000

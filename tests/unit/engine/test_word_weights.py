"""Weights of words, against those that the analysis aggregates by bytes, and against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwise.analysis.attention import SentenceWords, cross_attention
from headwise.documents.sentence import piece_ranges, words
from headwise.engine.alignment import sharpened
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.translator import Translator
from headwise.engine.word_weights import FoundTranslations, SentencePair
from translator_run import make_run

SOURCES = ["Two dogs are playing in the snow .", "A girl jumps over the rope , and her cat sleeps !"]
TARGETS = ["Zwei Hunde spielen im Schnee .", "Ein Mädchen springt über das Seil !"]


@pytest.mark.parametrize("layers", [2, 3])
def test_weights_are_those_of_the_analysis(tmp_path: Path, layers: int) -> None:
    translator = Translator.load(make_run(tmp_path / "run", decoder_layers=layers), device="cpu")
    encoded = translator.encode(SOURCES, translator.options, split=True)
    ids = [tuple(translator.subwords.encode_target(target)) for target in TARGETS]
    hypotheses = [[Hypothesis(one, 0.0, 0.0, ())] for one in ids]
    pairs = [
        SentencePair(number, 0, source, target, words(source), words(target))
        for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True))
    ]
    found = FoundTranslations(translator, encoded, hypotheses, []).weights(pairs)
    sentences = [[SentenceWords(text, tuple(text.split())) for text in some] for some in (SOURCES, TARGETS)]
    for weights, attention in zip(found, cross_attention(translator, *sentences), strict=True):
        layer = attention.weights[1:-1] if layers > 2 else attention.weights
        expected = sharpened(layer.mean(axis=(0, 1))[:, :-1])
        assert weights.shape == expected.shape
        np.testing.assert_allclose(weights, expected, atol=1e-4)
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


def test_a_word_that_everything_attends_to_is_discounted() -> None:
    weights = np.full((3, 3), 0.1, dtype=np.float32)
    weights[:, 2] = 0.5
    for row in range(3):
        weights[row, row] += 0.3
    weights /= weights.sum(1, keepdims=True)
    assert weights.argmax(1).tolist() == [2, 2, 2]
    assert sharpened(weights).argmax(1).tolist() == [0, 1, 2]
    expected = np.zeros((3, 3))
    for row in range(3):
        for column in range(3):
            share = weights[row, column] / sum(weights[:, column])
            expected[row, column] = weights[row, column] * share * np.exp(-4 * abs(row - column) / 2)
        expected[row] /= expected[row].sum()
    np.testing.assert_allclose(sharpened(weights), expected, rtol=1e-5)
    assert not sharpened(np.zeros((2, 0), dtype=np.float32)).size


def test_subwords_are_found_after_what_the_vocabulary_lacks() -> None:
    text = "A ☃☃ Girl jumps"
    ranges = piece_ranges(text, ["▁a", "▁", "<unk>", "▁g", "irl", "▁jump", "s"])
    assert [text[start:end] for start, end in ranges] == ["A", "", "", "G", "irl", "jump", "s"]

"""Corpus scores against sacreBLEU's own command line, and perplexity against its definition."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.errors import ConfigError, DataError
from headwise.evaluation.metrics import TOKENIZERS, find_metric
from headwise.evaluation.translation import (
    Perplexity,
    bleu,
    count_words,
    exact_match,
    perplexity,
    score_translations,
)

REFERENCES = [
    "A man rides a brown horse along the beach.",
    "Two children (aged 5 and 7) play in the snow; their dog, 'Rex', watches.",
    "The café's owner doesn't open before 10:30 a.m. on Sundays.",
    "Nobody saw the red car leave.",
]
HYPOTHESES = [
    "A man is riding a brown horse along the beach.",
    "Two children (5 and 7) play in the snow; their dog 'Rex' watches them.",
    "The Café's owner does not open before 10:30 a.m. on Sundays.",
    "No one saw the red car leave.",
]


def sacrebleu_cli(tmp_path: Path, hypotheses: list[str], references: list[str], *options: str) -> dict:
    """Return the result of sacreBLEU's command line."""
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    (tmp_path / "hyp").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "--width", "8", "--force", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, encoding="utf-8")
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (("-m", "bleu"), "bleu"),
        (("-m", "chrf"), "chrf"),
        (("-m", "bleu", "--tokenize", "none", "--lowercase"), "tokenized_bleu"),
    ],
)
def test_scores_and_signatures_equal_sacrebleu_command(tmp_path: Path, options: tuple[str, ...], key: str) -> None:
    expected = sacrebleu_cli(tmp_path, HYPOTHESES, REFERENCES, *options)
    ours = score_translations(HYPOTHESES, REFERENCES, lowercase=True).to_json()[key]
    assert ours["score"] == pytest.approx(expected["score"], abs=1e-7)
    assert ours["signature"] == expected["signature"]
    assert 0.0 < ours["score"] < 100.0


@pytest.mark.parametrize("tokenizer", ["intl", "char", "zh", "none"])
def test_chosen_tokenizer_is_used(tmp_path: Path, tokenizer: str) -> None:
    references, hypotheses = (
        ["彼は音楽が好きです。", "今日は雨が降る。"],
        ["彼は音楽が大好きです。", "昨日は雨が降る。"],
    )
    expected = sacrebleu_cli(tmp_path, hypotheses, references, "-m", "bleu", "--tokenize", tokenizer)
    scores = score_translations(hypotheses, references, tokenize=tokenizer)
    assert scores.metrics["bleu"].score == pytest.approx(expected["score"], abs=1e-7)
    assert f"tok:{tokenizer}|" in scores.metrics["bleu"].signature
    assert "tok:none|" in scores.metrics["tokenized_bleu"].signature


def test_identical_text_is_perfect_and_lowercase_concerns_tokenized_bleu_only() -> None:
    upper = [line.upper() for line in REFERENCES]
    scores = score_translations(upper, REFERENCES, lowercase=True)
    assert scores.metrics["tokenized_bleu"].score == pytest.approx(100.0)
    assert scores.metrics["bleu"].score < 50.0
    assert "case:lc" in scores.metrics["tokenized_bleu"].signature
    assert "case:mixed" in scores.metrics["bleu"].signature
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100.0)
    assert find_metric("chrf").score(REFERENCES, REFERENCES).score == pytest.approx(100.0)


def test_exact_lines_are_those_that_are_the_reference_but_for_spaces_around() -> None:
    hypotheses, references = ["a b", " a b ", "a  b", "A b", ""], ["a b", "a b", "a b", "a b", "a b"]
    assert exact_match(hypotheses, references) == pytest.approx(40.0)
    assert score_translations(hypotheses, references).exact == pytest.approx(40.0)
    with pytest.raises(DataError):
        exact_match(["a"], ["a", "b"])


def test_json_has_exactly_the_documented_keys() -> None:
    without = score_translations(HYPOTHESES, REFERENCES).to_json()
    assert list(without) == ["bleu", "chrf", "tokenized_bleu", "exact"]
    full = score_translations(HYPOTHESES, REFERENCES, perplexity=Perplexity(3.0, 4.5)).to_json()
    assert list(full) == ["bleu", "chrf", "tokenized_bleu", "exact", "perplexity"]
    for key in ("bleu", "chrf", "tokenized_bleu"):
        assert list(full[key]) == ["score", "signature"]
    assert full["perplexity"] == {"subword": 3.0, "word": 4.5}
    assert json.loads(json.dumps(full)) == full


def test_tokenized_text_is_noted_once_and_sacrebleu_stays_silent(caplog: pytest.LogCaptureFixture) -> None:
    tokenized = ["a man rides a horse ."] * 150
    plain = ["a man rides a horse."] * 150
    with caplog.at_level(logging.WARNING):
        (note,) = score_translations(tokenized, tokenized).notes
        assert "references look tokenized (150 of 150" in note
        (note,) = score_translations(tokenized, plain).notes
        assert "translations look tokenized" in note
        assert score_translations(plain, plain).notes == ()
    assert caplog.records == []


def test_unknown_tokenizer_lists_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"--tokenize: expected one of 13a, .*found 'moses'"):
        score_translations(HYPOTHESES, REFERENCES, tokenize="moses")


def test_every_listed_tokenizer_is_one_of_sacrebleus() -> None:
    from sacrebleu.metrics.bleu import BLEU

    assert set(TOKENIZERS) <= set(BLEU.TOKENIZERS)


def test_missing_tokenizer_package_says_what_to_install() -> None:
    try:
        import MeCab  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(ConfigError, match=r"--tokenize ja-mecab: .*`pip install 'sacrebleu\[ja\]'`"):
            bleu(HYPOTHESES, REFERENCES, tokenize="ja-mecab")
    else:
        pytest.skip("MeCab is installed, so nothing is missing")


def test_different_lengths_and_empty_sides_are_refused() -> None:
    with pytest.raises(DataError, match="found 3 translations and 4 references"):
        score_translations(HYPOTHESES[:3], REFERENCES)
    with pytest.raises(DataError, match="at least one line"):
        score_translations([], [])


def test_perplexity_of_a_uniform_model_is_its_vocabulary() -> None:
    lines = ["drei kurze Wörter", "zwei mehr"]
    words = count_words(lines)
    assert words == 3 + 1 + 2 + 1
    subwords = 12
    result = perplexity(subwords * math.log(1 / 500), subwords, words)
    assert result.subword == pytest.approx(500.0)
    assert result.word == pytest.approx(500.0 ** (subwords / words))


def test_perplexity_beyond_floats_is_infinite_and_null_in_json() -> None:
    result = perplexity(-1e6, 10, 5)
    assert math.isinf(result.subword)
    assert result.to_json() == {"subword": None, "word": None}
    with pytest.raises(DataError, match="found 0 and 3"):
        perplexity(-1.0, 0, 3)

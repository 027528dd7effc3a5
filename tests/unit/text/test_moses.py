"""Tokenizer compared with the Moses scripts, which Multi30k was prepared with, and detokenizer."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import ConfigError
from headwise.experiments.harness.test_sets import from_stanford, split_compounds, to_stanford
from headwise.text.tokens.moses import LANGUAGES, detokenize, plain_punctuation, tokenize
from paths import SHARED

MULTI30K = SHARED / "multi30k"


def lines(name: str) -> list[str]:
    file = MULTI30K / f"{name}.gz"
    if not file.exists():
        pytest.skip(f"needs the real data in {MULTI30K}")
    return gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()


@pytest.mark.parametrize("language", LANGUAGES)
def test_real_text_is_tokenized_as_moses_did_it(language: str) -> None:
    """Lines differ only by the normalization before tokenization (forms of quotes, `." ` and `". `)."""
    raw, theirs = lines(f"val.{language}"), lines(f"val.lc.norm.tok.{language}")
    ours = [tokenize(line.lower(), language, escape=True) for line in raw]
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    assert same / len(theirs) > 0.995


@pytest.mark.parametrize("language", LANGUAGES)
def test_real_text_comes_back(language: str) -> None:
    raw = [" ".join(line.split()) for line in lines(f"val.{language}")]
    same = sum(detokenize(tokenize(line, language, escape=True), language) == line for line in raw)
    assert same / len(raw) > 0.995


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("en", "It's Mr. Smith's, isn't it?", "It 's Mr. Smith 's , isn 't it ?"),
        ("en", "No. 5 costs $1,000.50 (or more)...", "No. 5 costs $ 1,000.50 ( or more ) ..."),
        ("en", "The boys' dogs, 5, ran.", "The boys ' dogs , 5 , ran ."),
        ("en", "the U.S. and e.g. this. Then", "the U.S. and e.g. this . Then"),
        ("de", "Am 3. Mai z.B. kam Dr. Maier.", "Am 3. Mai z.B. kam Dr. Maier ."),
        ("fr", "L'eau d'aujourd'hui, qu'il a.", "L' eau d' aujourd' hui , qu' il a ."),
    ],
)
def test_rules(language: str, line: str, tokens: str) -> None:
    assert tokenize(line, language) == tokens


def test_entities_and_compounds_are_stanfords() -> None:
    line = 'Er sagte: "Das ist ein well-known E-Mail-Test [A & B]."'
    written = to_stanford(line, "de")
    assert written == (
        "Er sagte : &quot; Das ist ein well ##AT##-##AT## known E ##AT##-##AT## Mail ##AT##-##AT## Test "
        "&#91; A &amp; B &#93; . &quot;"
    )
    assert from_stanford(written, "de") == line
    assert split_compounds("vis-a-vis") == "vis ##AT##-##AT## a-vis"  # the paper's script looks at every letter once


def test_typographic_punctuation_becomes_plain() -> None:
    assert plain_punctuation("„Ja“ – er’s…") == '"Ja" - er\'s...'


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(ConfigError, match=r"expected one with rules of tokenization \(en, de, fr\), found 'xx'"):
        tokenize("a", "xx")


@given(st.text(), st.sampled_from(LANGUAGES))
def test_nothing_but_spaces_is_added(line: str, language: str) -> None:
    printable = "".join(c for c in line if c >= " " or c == "\t")
    assert "".join(tokenize(line, language).split()) == "".join(printable.split())

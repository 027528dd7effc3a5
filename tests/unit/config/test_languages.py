"""Codes of languages: what names of files tell, what options accept, and what a configuration keeps."""

from __future__ import annotations

import pytest

from headwise.config import Config, DataConfig
from headwise.config.languages import NAMES, find_language, language_name, language_of_files, parse_languages
from headwise.errors import ConfigError


@pytest.mark.parametrize(
    ("file", "language"),
    [
        ("train.en", "en"),
        ("data/train.de.gz", "de"),
        ("corpus.de.txt", "de"),
        ("news.fr-en.en", "en"),
        ("train.tok.fi.gz", "fi"),
        ("train.tsv", None),
        ("train.v2.txt", None),
        ("train.source", None),
    ],
)
def test_names_of_files_tell_languages(file: str, language: str | None) -> None:
    assert language_of_files([file]) == language
    assert DataConfig(source=[file], target=["b.txt"]).languages == (language, None)


def test_given_languages_win_over_names() -> None:
    data = DataConfig(source=["a.en"], target=["a.de"], target_language="gsw")
    assert data.languages == ("en", "gsw")
    kept = data.with_languages()
    assert (kept.source_language, kept.target_language) == ("en", "gsw")


def test_a_code_has_the_form_of_one() -> None:
    with pytest.raises(ConfigError, match=r"data\.source_language: expected a language code such as en"):
        Config.from_tree({"data": {"source_language": "English!"}})


@pytest.mark.parametrize(("text", "codes"), [("en-de", ("en", "de")), ("en:pt-BR", ("en", "pt-BR"))])
def test_a_pair_is_parsed(text: str, codes: tuple[str, str]) -> None:
    assert parse_languages(text) == codes


@pytest.mark.parametrize("text", ["en", "en-en", "en-pt-BR", "English-German", "en:", ""])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--languages: expected two language codes"):
        parse_languages(text)


@pytest.mark.parametrize(
    ("codes", "wanted", "place"),
    [
        (["en", "de"], "de", 1),
        (["en", "pt", "pt_br"], "pt-BR", 2),  # the same comes before one without a region
        (["en-US", "de-AT"], "de", 1),
        (["en-US", "de"], "de-AT", 1),
        (["en-US", "de-DE"], "de-AT", None),
        (["en", "de"], "d", None),
    ],
)
def test_a_language_is_found_among_codes(codes: list[str], wanted: str, place: int | None) -> None:
    assert find_language(codes, wanted) == place


def test_names() -> None:
    assert len(NAMES) == 185  # 183 of ISO 639-1 in use, and Argos's pb and zt
    assert language_name("de") == "German"
    assert language_name("de-AT") == "German (de-AT)"
    assert language_name("gsw") == "gsw"

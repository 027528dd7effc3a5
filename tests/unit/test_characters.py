"""Lone surrogates, from JSON, file names and Python, are errors that name their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.characters import check_characters, unwritable
from headwise.config import Config, Section
from headwise.errors import ConfigError, DataError
from headwise.text.preparation.file_parts import stamp_of
from headwise.text.preparation.labelled.classification import LabelledTexts
from headwise.text.reading.records import json_object, read_records
from headwise.text.reading.replay import read_replay
from program import Call

ANY_CHARACTERS = st.text(st.characters(codec=None, categories=None))  # surrogates, too


@given(ANY_CHARACTERS)
def test_what_utf_8_can_write_is_whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        assert unwritable(text) is not None
        with pytest.raises(DataError, match=r"^here: expected whole characters, found half of one"):
            check_characters(text, "here")
    else:
        assert check_characters(text, "here") == text


@pytest.mark.parametrize("line", [r'{"text": "a\ud800b"}', r'{"\uDFFF": 1}', r'{"a": [{"b": "\ud83d"}]}'])
def test_half_a_character_in_json(line: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "fine"}\n' + line + "\n")
    records = read_records(file)
    assert next(records).fields == {"text": "fine"}
    with pytest.raises(
        DataError, match=r"texts\.jsonl line 2: .*found half of a surrogate pair, which is no character"
    ):
        next(records)


def test_both_halves_are_a_character() -> None:
    assert json_object(r'{"text": "\ud83d\ude00"}', "here") == {"text": "\U0001f600"}


def test_a_label(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(r'{"text": "fine", "label": "\udcff"}' + "\n")
    form = LabelledTexts(Config().classification, 0.1)
    with pytest.raises(DataError, match=r"texts\.jsonl line 1: .*found half of a surrogate pair"):
        form.read([file])


@pytest.mark.parametrize("name", ["\udcff.en", "a\0b", "\ud800"])
def test_names_that_a_configuration_can_not_hold(name: str) -> None:
    with pytest.raises(ConfigError, match=r"data\.source: expected a name in UTF-8, found '"):
        Config.from_tree({"data": {"source": ["fine", name]}})
    with pytest.raises(ConfigError, match=r"data\.dev_text: expected a name in UTF-8, found '"):
        Config.from_tree({"data": {"dev_text": name}})


def test_names_of_files_that_no_manifest_and_no_configuration_can_hold(tmp_path: Path, program: Call) -> None:
    with pytest.raises(DataError, match=r"\.en: expected a file whose name is UTF-8, found another"):
        stamp_of(str(tmp_path / "\udcff.en"))
    with pytest.raises(ConfigError, match=r"data\.source: expected a name in UTF-8, found '"):
        read_replay("\udcff.en,\udcff.de=0.3")
    prepare = ("data", "prepare", "--source", "a.tsv", "-o", str(tmp_path / "out"))
    outcome = program(*prepare, "--held-out", "\udcff.en")
    assert outcome.error == r"command line: data.cleaning.held_out: expected a name in UTF-8, found '\udcff.en'"


def test_every_text_of_a_configuration_can_be_written() -> None:
    checked = 0
    for name, section in [("", Config()), *dict(Config()).items()]:
        for key, value in dict(section).items() if isinstance(section, Section) else []:
            if isinstance(value, str) or type(section).model_fields[key].annotation in (
                list[str],
                str | None,
            ):
                text = ["\0"] if isinstance(value, list) else "\0"
                tree = {name: {key: text}} if name else {key: text}
                with pytest.raises(ConfigError, match=rf"{key}: .*found '?\W*x00"):
                    Config.from_tree(tree)
                checked += 1
    assert checked > 20

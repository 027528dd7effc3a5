"""`--mix`: old text beside new text, read as it was by its own run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.config import DataConfig
from headwise.errors import ConfigError
from headwise.text.reading.pairs import read_pairs, training_files
from headwise.text.reading.replay import Replay, read_replay, with_replay

UNIT = '<tu><tuv xml:lang="{0}"><seg>{0}</seg></tuv><tuv xml:lang="{1}"><seg>{1}</seg></tuv></tu>'
NEW = DataConfig(source=["new.de"], target=["new.en"])


@pytest.fixture
def memory(tmp_path: Path) -> str:
    file = tmp_path / "memory.tmx"
    file.write_text(f'<tmx version="1.4"><header srclang="en"/><body>{UNIT.format("en", "de")}</body></tmx>')
    return str(file)


@pytest.mark.parametrize("name", ["old.tmx", "old.xliff", "old.parquet", "old.jsonl.gz"])
def test_the_sides_of_old_files_are_not_exchanged(name: str) -> None:
    """The run translated from the file's target; the new text, which has no fields, is the same way around."""
    old = DataConfig(source=[name], source_field="de", target_field="en")
    with pytest.raises(ConfigError, match="fields source and target, as the new text has, found de and en"):
        with_replay(NEW, [Replay("runs/old", old, 0.3)], lambda _: 1)
    same = NEW.model_copy(update={"source_field": "de", "target_field": "en"})
    assert with_replay(same, [Replay("runs/old", old, 0.3)], lambda _: 1).source == ["new.de", name]


def test_fields_of_files_without_any_do_not_matter() -> None:
    old = DataConfig(source=["old.tsv", "a.jsonl.de"], target=["a.jsonl.en"], source_field="x")
    mixed = with_replay(NEW, [Replay("runs/old", old, 0.5)], lambda _: 1)
    assert (mixed.source, mixed.target) == (["new.de", "old.tsv", "a.jsonl.de"], ["new.en", "a.jsonl.en"])
    assert mixed.weights == [0.5, 0.25, 0.25]


def test_text_of_the_other_direction_is_refused() -> None:
    swapped = DataConfig(source=["old.tsv"], source_language="en", target_language="deu")
    for old in (swapped, DataConfig(source=["old.en"], target=["old.de"])):
        with pytest.raises(ConfigError, match="from de to en as the new one, found the other way around"):
            with_replay(NEW, [Replay("runs/old", old, 0.5)], lambda _: 1)
    for languages in (("de", "en"), ("de-AT", "en-GB"), ("fr", "en"), ("en", None)):
        old = swapped.model_copy(update=dict(zip(("source_language", "target_language"), languages, strict=True)))
        assert len(with_replay(NEW, [Replay("runs/old", old, 0.5)], lambda _: 1).source) == 2


def test_files_are_read_with_the_fields_of_the_new_text(memory: str) -> None:
    new = NEW.model_copy(update={"source_field": "de", "target_field": "en"})
    mixed = with_replay(new, [read_replay(f"{memory}=0.3")], lambda _: 1)
    pairs = read_pairs(training_files(mixed)[1], mixed.source_field, mixed.target_field)
    assert [(pair.source, pair.target) for pair in pairs] == [(b"de", b"en")]


@pytest.mark.parametrize("old", ["runs/nowhere", "old.en", "old.en,old.de,old.fr", "old.tsv,old.de"])
def test_what_is_neither_a_run_nor_text_is_named(old: str) -> None:
    with pytest.raises(ConfigError, match=f"^--mix {old}: expected a run, SOURCE,TARGET or one file with both"):
        read_replay(f"{old}=0.3")

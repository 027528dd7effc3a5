"""Subwords of another run (`subwords.copy_from`): the recipe with them, and what is named where they don't fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.config import Config, DataConfig, SubwordConfig
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks.recipes import choose, measure, with_subwords_of
from headwise.tasks.registry import find_task
from headwise.tasks.start import check_subwords
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.subwords import Subwords
from toy import Toy
from translator_run import ENGLISH, GERMAN


@pytest.mark.parametrize("joint", [True, False])
def test_the_vocabulary_is_that_of_the_run(joint: bool, toy: Toy, tmp_path: Path) -> None:
    config = SubwordConfig(size=150 if joint else 110, joint=joint)
    subwords = Subwords.train(ENGLISH, GERMAN, config, tmp_path / "teacher")
    data = DataConfig(source=[str(toy.source)], target=[str(toy.target)], dev_pairs=10, workers=1)
    recipe = with_subwords_of(choose(measure(data), data), tmp_path / "teacher")
    assert recipe.reasons[0] == f"subwords.copy_from={tmp_path}/teacher: its {subwords.target_size:,} subwords"
    assert recipe.config.model.share_embeddings == ("all" if joint else "target")
    kind, said = find_task("translation"), []
    prepared = kind.prepare(recipe.config, tmp_path / "prepared", expected=None, say=said.append)
    assert not any("whatever subwords.size says" in line for line in said)
    prepared.save(tmp_path / "run")
    other = recipe.config.with_overrides(["subwords.size=200"])
    kind.prepare(other, tmp_path / "other", expected=None, say=said.append)
    size = f"{subwords.source_size:,}"
    assert f"subwords: the {size} of {tmp_path}/teacher, whatever subwords.size says" in said
    for name in ["spm.model"] if joint else ["spm.source.model", "spm.target.model"]:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "teacher" / name).read_bytes()


def test_subwords_of_another_kind_are_named(toy: Toy) -> None:
    imported = Subwords(b"", b"", PairVocabulary((*SPECIAL_PIECES, "cat", "dog"), split="words"))
    with pytest.raises(ConfigError, match=r"subwords\.kind: expected imported, as in data\.prepared, found bpe"):
        check_subwords(Config.load(toy.config), imported, "data.prepared")


def test_subwords_that_cannot_be_copied_are_named(toy: Toy, tmp_path: Path) -> None:
    config = Config.load(toy.config)
    kind = find_task("translation")

    def prepare(*changes: str) -> None:
        changed = config.with_overrides(changes)
        kind.check(changed)
        kind.prepare(changed, tmp_path / "prepared", expected=None, say=lambda _: None)

    with pytest.raises(CheckpointError, match=r"nowhere/spm\.model: there is no such subword model"):
        prepare("subwords.copy_from=nowhere")
    with pytest.raises(ConfigError, match=r"subwords\.copy_from: expected nothing beside training\.initialize_from"):
        prepare("subwords.copy_from=nowhere", "training.initialize_from=nowhere")
    Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=150), tmp_path)
    with pytest.raises(CheckpointError, match="expected a subword model with lowercase=True as configured"):
        prepare(f"subwords.copy_from={tmp_path}", "subwords.lowercase=true")
    with pytest.raises(ConfigError, match=r"subwords\.symbols: expected subwords of .*, found <bt>, which is"):
        prepare(f"subwords.copy_from={tmp_path}", "subwords.symbols=[<bt>]")
    tagged = tmp_path / "tagged"
    Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=150, symbols=["<bt>"]), tagged)
    prepare(f"subwords.copy_from={tagged}", "subwords.symbols=[<bt>]")
    language_model = Config.from_tree({"task": "language_model", "subwords": {"copy_from": "nowhere"}})
    with pytest.raises(ConfigError, match=r"subwords\.copy_from: expected nothing here"):
        find_task("language_model").check(language_model)

"""The parts of a distillation: the student's recipe, copied subwords, the choice of a translation, the progress."""

from __future__ import annotations

from pathlib import Path

import pytest
import sacrebleu

from headwise.config import Config, DataConfig, SubwordConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.evaluation.translation import nearest
from headwise.tasks.corpus import progress
from headwise.tasks.corpus.runs import Runs
from headwise.tasks.distillation import student
from headwise.tasks.recipes import CorpusSize, choose
from headwise.tasks.registry import find_task
from headwise.text.tokens.numbering import Side
from headwise.text.tokens.subwords import Subwords
from multilingual_run import make_multilingual
from toy import Toy
from translator_run import ENGLISH, GERMAN


def size(pairs: int) -> CorpusSize:
    words = {str(number) for number in range(100_000)}
    return CorpusSize(pairs, 10 * pairs, 60 * pairs, set("abc "), words)


@pytest.mark.parametrize(("pairs", "width"), [(30_000, 128), (1_000_000, 256), (5_000_000, 256)])
def test_a_student_has_a_shallow_decoder_and_is_never_wide(
    pairs: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(student, "measure", lambda data: size(pairs))
    recipe = student.student_recipe(DataConfig(), None, seed=3)
    model = recipe.config.model
    assert (model.encoder_layers, model.decoder_layers, model.d_model) == (6, 2, width)
    assert recipe.config.training.seed == 3
    usual = choose(size(pairs), DataConfig())
    assert recipe.config.training.max_steps == usual.config.training.max_steps
    assert recipe.config.subwords == usual.config.subwords
    assert [reason.partition(":")[0] for reason in recipe.reasons].count("model") == 1


@pytest.mark.parametrize("joint", [True, False])
def test_a_students_vocabulary_is_the_teachers(joint: bool, toy: Toy, tmp_path: Path) -> None:
    config = SubwordConfig(size=150 if joint else 110, joint=joint)
    subwords = Subwords.train(ENGLISH, GERMAN, config, tmp_path / "teacher")
    data = DataConfig(source=[str(toy.source)], target=[str(toy.target)], dev_pairs=10, workers=1)
    recipe = student.student_recipe(data, tmp_path / "teacher")
    assert (
        recipe.reasons[0] == f"subwords.copy_from={tmp_path}/teacher: the teacher's {subwords.target_size:,}"
    )
    assert recipe.config.model.share_embeddings == ("all" if joint else "target")
    prepared = find_task("translation").prepare(
        recipe.config, tmp_path / "prepared", expected=None, say=lambda _: None
    )
    prepared.save(tmp_path / "run")
    for name in ["spm.model"] if joint else ["spm.source.model", "spm.target.model"]:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "teacher" / name).read_bytes()


@pytest.mark.parametrize("tagged", ["source", "target"])
def test_a_teacher_of_several_languages_teaches_one(tagged: Side, toy: Toy, tmp_path: Path) -> None:
    run = make_multilingual(tmp_path, tagged)
    french, german = Runs([run], engine={"device": "cpu"}), Runs([run], engine={"language": "deu"})
    assert french.digest() == Runs([run], engine={"language": "fra"}).digest() != german.digest()
    assert (Runs([run], engine={"language": "fra"}).target_language(), german.target_language()) == (
        "fr",
        "de",
    )
    with pytest.raises(ConfigError, match="--target-language: expected a language code of this vocabulary"):
        Runs([run], engine={"language": "spa"}).target_language()
    translator = german.load()
    assert translator.subwords.numbering is not None
    assert translator.subwords.numbering.language == ">>deu<<"
    translator.subwords.save(tmp_path / "distilled")
    data = DataConfig(source=[str(toy.source)], target=[str(toy.target)], dev_pairs=10, workers=1)
    recipe = student.student_recipe(data, tmp_path / "distilled")
    prepared = find_task("translation").prepare(
        recipe.config, tmp_path / "prepared", expected=None, say=lambda _: None
    )
    assert prepared.subwords.digest() == translator.subwords.digest()


def test_subwords_that_cannot_be_copied_are_named(toy: Toy, tmp_path: Path) -> None:
    config = Config.load(toy.config)
    kind = find_task("translation")

    def prepare(*changes: str) -> None:
        changed = config.with_overrides(changes)
        kind.check(changed)
        kind.prepare(changed, tmp_path / "prepared", expected=None, say=lambda _: None)

    with pytest.raises(CheckpointError, match=r"nowhere/spm\.model: there is no such subword model"):
        prepare("subwords.copy_from=nowhere")
    with pytest.raises(
        ConfigError, match=r"subwords\.copy_from: expected nothing beside training\.initialize_from"
    ):
        prepare("subwords.copy_from=nowhere", "training.initialize_from=nowhere")
    Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=150), tmp_path)
    with pytest.raises(CheckpointError, match="expected a subword model with lowercase=True as configured"):
        prepare(f"subwords.copy_from={tmp_path}", "subwords.lowercase=true")
    language_model = Config.from_tree({"task": "language_model", "subwords": {"copy_from": "nowhere"}})
    with pytest.raises(ConfigError, match=r"subwords\.copy_from: expected nothing here"):
        find_task("language_model").check(language_model)


def test_the_nearest_candidate_is_that_of_sacrebleu() -> None:
    for reference in GERMAN:
        scores = [sacrebleu.sentence_bleu(candidate, [reference]).score for candidate in GERMAN]
        assert nearest(GERMAN, reference) == GERMAN[scores.index(max(scores))] == reference
    words = GERMAN[0].split()
    candidates = [" ".join(words[:2]), " ".join(words[:6]), " ".join(words[:6]).lower(), " ".join(words[3:])]
    scores = [sacrebleu.sentence_bleu(candidate, [GERMAN[0]]).score for candidate in candidates]
    assert nearest(candidates, GERMAN[0]) == candidates[scores.index(max(scores))]
    assert nearest(["rot", "blau"], "grün") == "rot"  # of equal ones, the first
    assert nearest(["色い赤", "赤い色"], "赤い色だ", "char") == "赤い色"
    with pytest.raises(ConfigError, match="--tokenize: expected one of 13a, "):
        nearest(["a"], "a", "14a")


def test_progress_is_printed_line_by_line_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([100.0, 102.0, 111.0, 112.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    with progress.TranslationProgress(5000, 1000) as shown:
        shown.advance(1000)  # after 2 seconds: too soon for a line
        shown.advance(1200)  # after 11 seconds
        shown.advance(100)
    assert capsys.readouterr().err == "line 3,200/5,000  200 lines/s  0:09 left\n"

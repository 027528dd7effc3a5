"""The recipe chosen from a corpus: its choices, and that each is a valid configuration."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.api.training import TrainingRequest
from headwise.config import AugmentConfig, Config, DataConfig, OptimizerConfig, TrainingConfig
from headwise.config.keys import changed_keys
from headwise.config.presets import student_changes
from headwise.models.build import build_model, weightless
from headwise.tasks.recipes import CorpusSize, adapt, choose, measure, subword_count
from headwise.tasks.registry import find_task
from headwise.training.optimizer import build_optimizer
from headwise.training.parallel.world import World
from paths import CONFIGS

WORDS = [str(number) for number in range(200_000)]


def size(pairs: int, words: int = 10) -> CorpusSize:
    return CorpusSize(
        pairs=pairs,
        target_words=words * pairs,
        target_characters=6 * words * pairs,
        alphabet=set("abcdefghijklmnopqrstuvwxyz .,"),
        vocabulary=set(WORDS[:pairs]),
    )


def test_measure_counts_what_cleaning_keeps(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.gz", "wt", encoding="utf-8") as file:
        file.write("one two\n\nthree\n")
    (tmp_path / "b").write_text("eins zwei\nleer\ndrei vier fünf\n", encoding="utf-8")
    found = measure(DataConfig(source=[str(tmp_path / "a.gz")], target=[str(tmp_path / "b")]))
    assert (found.pairs, found.target_words) == (2, 5)
    assert found.target_characters == len("eins zwei") + len("drei vier fünf")
    assert found.vocabulary == {"one", "two", "three", "eins", "zwei", "drei", "vier", "fünf"}
    assert {"ü", " ", "t"} <= found.alphabet
    assert "l" not in found.alphabet


def test_text_without_spaces_counts_by_characters() -> None:
    spaced, unspaced = size(1000), size(1000)
    unspaced.target_words = 1000
    assert spaced.target_tokens == pytest.approx(1000 + 1.15 * 10_000)
    assert unspaced.target_tokens == 1000 + 60_000 / 2


@given(pairs=st.integers(1, 50_000_000), words=st.integers(1, 60))
def test_every_choice_is_a_valid_configuration_with_reasons(pairs: int, words: int) -> None:
    recipe = choose(size(pairs, words), DataConfig())
    config = Config.from_tree(recipe.config.model_dump())
    assert config.training.max_steps >= 1000
    assert config.training.checkpoint_every * config.training.average_last <= config.training.max_steps
    assert config.training.validate_every <= config.training.max_steps
    assert config.schedule.warmup <= config.training.max_steps / 5
    assert f"subwords.size={config.subwords.size}" in recipe.reasons[0]


@given(st.integers(1, 50_000_000), st.integers(1, 50_000_000))
def test_more_text_never_means_fewer_subwords_or_a_smaller_model(one: int, other: int) -> None:
    few, many = (choose(size(pairs), DataConfig()).config for pairs in sorted((one, other)))
    assert few.subwords.size <= many.subwords.size
    assert few.model.d_model <= many.model.d_model
    assert few.model.dropout >= many.model.dropout


def test_millions_of_pairs_get_the_papers_recipe() -> None:
    config = choose(size(4_500_000), DataConfig()).config
    paper = Config()
    assert (config.model, config.schedule, config.batch) == (paper.model, paper.schedule, paper.batch)
    assert config.training.max_steps == 100_000
    assert subword_count(size(4_500_000)) == 37_000 + len(size(1).alphabet)


def test_a_small_corpus_is_augmented_with_text_as_people_type_it() -> None:
    cased, small = (replace(size(30_000), alphabet=set(letters)) for letters in ("abAB.", "ab."))
    config = choose(cased, DataConfig()).config
    assert config.decoding.recase
    assert config.data.augment.typos > 0
    config = choose(small, DataConfig()).config
    assert not config.decoding.recase  # which would write capitals that the vocabulary lacks
    assert config.data.augment.typos > 0
    mine = DataConfig(augment=AugmentConfig(copied=0.5))
    assert choose(cased, mine).config.data.augment == mine.augment
    assert not DataConfig().augment.active  # the configuration that was given stays as it is
    assert not choose(replace(cased, pairs=4_500_000), DataConfig()).config.data.augment.active


def test_a_run_against_the_clock_saves_often_and_keeps_its_rate_high() -> None:
    free = choose(size(30_000), DataConfig()).config
    timed = choose(size(30_000), DataConfig(), timed=True)
    assert (free.schedule.name, timed.config.schedule.name) == ("linear", "inverse_sqrt")
    assert (free.optimizer.name, timed.config.optimizer.name) == ("adam", "muon")
    assert timed.config.training.checkpoint_every < free.training.checkpoint_every
    assert "time" in timed.reasons[-1]


@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("pairs", [30_000, 400_000, 2_000_000])
def test_every_architecture_can_be_trained_by_the_recipe(architecture: str, timed: bool, pairs: int) -> None:
    recipe = choose(size(pairs), DataConfig(), timed=timed, architecture=architecture)
    config = recipe.config.with_overrides([f"model.architecture={architecture}"])
    model = weightless(lambda: build_model(config.model, 100, 100))
    build_optimizer(model, config.optimizer, World())
    assert (architecture == "transformer" and timed and pairs < 1_500_000) == any(
        "muon" in reason for reason in recipe.reasons
    )


def test_the_size_of_multi30k_gets_the_shipped_configuration_but_for_rounding_and_r_drop() -> None:
    shipped = Config.load(CONFIGS / "multi30k-en-de.yaml")
    chosen = choose(size(29_000, words=12), DataConfig()).config
    assert chosen.model == shipped.model
    assert chosen.batch == shipped.batch
    assert chosen.schedule == shipped.schedule
    assert chosen.training.average_last == shipped.training.average_last
    assert chosen.training.max_steps == pytest.approx(shipped.training.max_steps, rel=0.15)
    assert chosen.subwords.size == pytest.approx(shipped.subwords.size, rel=0.1)


@given(pairs=st.integers(1, 5_000_000), width=st.sampled_from([16, 128, 256, 512, 1024]))
def test_every_adaptation_keeps_the_model_and_can_end_early(pairs: int, width: int) -> None:
    start = choose(size(30_000), DataConfig()).config
    start.model.d_model, start.model.d_ff = width, 2 * width
    given = TrainingConfig.model_validate({"initialize_from": "run", "seed": 3})
    recipe = adapt(size(pairs), start, DataConfig(), given)
    config = recipe.config
    assert (config.model, config.subwords, config.decoding) == (start.model, start.subwords, start.decoding)
    assert config.training.seed == 3
    assert 1024 <= config.batch.tokens <= start.batch.tokens
    assert config.schedule.peak is not None
    assert config.schedule.peak <= 2e-3
    training = config.training
    assert training.validate_every == training.checkpoint_every >= 20
    assert training.average_last == training.patience + 1
    assert training.max_steps >= 10 * training.validate_every
    assert any(f"schedule.peak={config.schedule.peak:g}" in reason for reason in recipe.reasons)


def test_a_run_of_muon_is_adapted_by_adam() -> None:
    """The rates of an adaptation were tuned for Adam."""
    optimizer = {"name": "muon", "momentum": 0.9, "matrix_rate": 3.0, "beta2": 0.99}
    start = Config.from_tree({"optimizer": optimizer})
    given = TrainingConfig(initialize_from="start")
    assert adapt(size(1000), start, DataConfig(), given).config.optimizer == OptimizerConfig(beta2=0.99)


def test_a_run_with_copied_subwords_is_adapted_with_its_own() -> None:
    """Such as a student, which has its teacher's."""
    start = choose(size(30_000), DataConfig()).config.with_overrides(["subwords.copy_from=teacher"])
    config = adapt(size(1000), start, DataConfig(), TrainingConfig(initialize_from="student")).config
    find_task("translation").check(config)


@pytest.mark.parametrize(
    ("files", "languages"), [(("new.txt", "neu.txt"), ("en", "de")), (("new.en", "neu.fr"), ("en", "fr"))]
)
def test_an_adapted_run_has_the_languages_of_the_first_unless_the_files_names_tell_others(
    files: tuple[str, str], languages: tuple[str, str]
) -> None:
    start = Config.from_tree({"data": {"source_language": "en", "target_language": "de"}})
    data = DataConfig(source=[files[0]], target=[files[1]])
    recipe = adapt(size(1000), start, data, TrainingConfig(initialize_from="start"))
    assert recipe.config.data.languages == languages


def test_wider_models_are_adapted_at_lower_rates() -> None:
    start = choose(size(30_000), DataConfig()).config
    peaks = []
    for width in (128, 256, 512, 1024):
        start.model.d_model = width
        peak = adapt(size(1000), start, DataConfig(), TrainingConfig(initialize_from="run")).config.schedule.peak
        peaks.append(peak)
    assert peaks == pytest.approx([2e-3, 5e-4, 1.25e-4, 3.1e-5], rel=0.05)


@pytest.mark.parametrize(("pairs", "width"), [(30_000, 128), (1_000_000, 256), (5_000_000, 256)])
def test_a_student_has_a_shallow_decoder_and_is_never_wide(pairs: int, width: int) -> None:
    usual = choose(size(pairs), DataConfig())
    config = usual.config.with_overrides(student_changes(usual.config.model))
    shape = {"encoder_layers": 6, "decoder_layers": 2, "d_model": width}
    if usual.config.model.d_model > 256:
        shape |= {"d_ff": 1024, "heads": 4}
    assert config == usual.config.model_copy(update={"model": usual.config.model.model_copy(update=shape)})
    assert student_changes(config.model) == student_changes(usual.config.model)[:2]


@pytest.fixture
def small(tmp_path: Path) -> TrainingRequest:
    """A training from two files of 40 pairs."""
    texts = [str(tmp_path / name) for name in ("a.en", "a.de")]
    for file in texts:
        Path(file).write_text("".join(f"{word} and so on\n" for word in WORDS[:40]), encoding="utf-8")
    return TrainingRequest(source=texts[:1], target=texts[1:], out=tmp_path / "run", checks=False)


@pytest.mark.parametrize("preset", [None, "big", "student"])
def test_the_reasons_end_with_what_was_given_instead(small: TrainingRequest, preset: str | None) -> None:
    chosen, given = small.plan(), "given, which overrides the above: "
    assert not any(line.startswith(given) for line in chosen.reasons)
    changed = replace(small, preset=preset, changes=["batch.tokens=512", "data.augment.typos=0"], max_steps=9)
    plan = changed.plan()
    settings = plan.reasons[-1].removeprefix(given).split(" ")
    student = student_changes(chosen.config.model) if preset == "student" else []
    assert chosen.config.with_overrides([*student, *settings]) == plan.config
    assert {"batch.tokens=512", "training.max_steps=9"} <= set(settings)
    assert ("model.d_model=1024" in settings) == (preset == "big")


@pytest.mark.parametrize("width", [64, 512])
def test_a_student_that_resumes_is_one_of_its_own_width(small: TrainingRequest, width: int) -> None:
    """And a run that isn't a student doesn't resume as one: its layers differ from those that it was begun with."""
    student = replace(small, changes=[f"model.d_model={width}"], preset="student")
    run = Path(str(small.out))
    for begun in (student, replace(student, preset=None)):
        config = begun.plan().config
        run.mkdir(exist_ok=True)
        (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
        (run / "latest").write_text("step-1")
        changed = changed_keys(config, student.plan().config)
        assert [key.partition("=")[0] for key in changed] == (
            [] if begun is student else ["model.decoder_layers", "model.encoder_layers"]
        )
        (run / "latest").unlink()

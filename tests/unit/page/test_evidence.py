"""The evidence panel's data: measurements over many sentences use gold trees, coreferences and alignments."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from headwise.analysis.attention import SentenceWords
from headwise.analysis.heads.measuring import Annotated, PartReport
from headwise.cli.annotated import read_sentences
from headwise.config import Config, DataConfig, SubwordConfig
from headwise.corpora.built_in import read_built_in, write_built_in
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.page import evaluation_pairs, evidence
from headwise.page.application import Page
from headwise.page.development_set import suggestions
from headwise.page.evaluation_pairs import EvaluationPairs
from headwise.page.runs import PageRun
from headwise.text.preparation.in_process import prepare
from planted_heads import Planted, antecedent, subject
from translator_run import ENGLISH, GERMAN, make_run

PAIRS = 150  # of 500 in use
EXAMPLES = read_built_in("miniature", "examples.en")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose development set is that of the built-in corpus, as `headwise demo` writes it."""
    folder = tmp_path_factory.mktemp("runs")
    write_built_in("miniature", folder / "corpus", "dev.*")
    run = make_run(folder / "small", seed=1, max_length=200)
    config = Config.load(run / "config.yaml")
    data = config.data.model_copy(
        update={
            f"dev_{side}": str(folder / "corpus" / f"dev.{code}") for side, code in (("source", "en"), ("target", "de"))
        }
    )
    (run / "config.yaml").write_text(config.model_copy(update={"data": data}).to_yaml(), encoding="utf-8")
    return run


@pytest.fixture
def planted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure a model whose first head attends from verbs to subjects, the second from pronouns to nouns."""
    translator = Translator.load(run, device="cpu")

    def measure(_: Translator, sources: Sequence[Annotated], targets: Sequence[Annotated]) -> list[PartReport]:
        assert len(sources) == len(targets) == PAIRS
        spaced = [replace(one, sentence=SentenceWords.of(" ".join(one.sentence.words))) for one in sources]
        return [Planted(translator, spaced, [subject, antecedent]).measure(spaced)]

    monkeypatch.setattr(evidence, "measure_heads", measure)
    monkeypatch.setattr(evaluation_pairs, "MOST_SENTENCES", PAIRS)


def measured(run: Path, corpus: EvaluationPairs | None) -> dict[str, Any]:
    measurement = evidence.Evidence(corpus, PageRun.open_all([run], "cpu")[run.name].translator)
    measurement.start()
    while measurement.to_json()["status"] == "measuring":
        time.sleep(0.05)
    assert measurement.to_json()["status"] == "measured", measurement.about
    return measurement.to_json()


@pytest.mark.parametrize("way", ["beside the development data", pytest.param("--miniature", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("planted")
def test_gold_reaches_roles_and_the_alignment_error_rate(run: Path, way: str) -> None:
    if way == "--miniature":
        sentences = read_sentences(None, None, miniature="test", limit=PAIRS)
        assert sentences.targets is not None
        corpus = EvaluationPairs("the built-in corpus", sentences.sources, sentences.targets, sentences.gold)
    else:
        corpus = EvaluationPairs.of(PageRun.open_all([run], "cpu")[run.name])
    assert corpus is not None
    answer = measured(run, corpus)
    first, second = answer["heads"]["encoder"][0]
    roles = {role["name"]: role for role in first["roles"] + second["roles"]}
    assert roles["head → nsubj"]["rate"] > 0.99
    assert roles["pronoun → its noun"]["rate"] > 0.99
    for role in (roles["head → nsubj"], roles["pronoun → its noun"]):
        assert role["baseline"] < 0.9
        assert role["against"] in ("best fixed offset", "chance")
        assert role["samples"] >= 20
        assert role["unit"] == "share"
    # Whatever has no subject attends to the end symbol.
    assert roles["separators"]["unit"] == "weight"
    assert roles["separators"]["rate"] > 0.5 > roles["separators"]["baseline"]
    assert answer["alignment"]["sentences"] == PAIRS // 2


def test_without_trees_beside_it_development_data_is_plain(run: Path, tmp_path: Path) -> None:
    opened = PageRun.open_all([run], "cpu")[run.name]
    folder = Path(str(opened.config.data.dev_source)).parent
    plain = {side: str(tmp_path / f"dev.{side}") for side in ("en", "de")}
    for side, file in plain.items():
        shutil.copy(folder / f"dev.{side}", file)
    opened.config.data.dev_source, opened.config.data.dev_target = plain["en"], plain["de"]
    corpus = EvaluationPairs.of(opened)
    assert corpus is not None
    assert corpus.gold is None
    assert not any(one.edges for one in corpus.sources)
    (tmp_path / "dev.align").write_text("0-0\n")
    with pytest.raises(DataError, match=r"dev.align: expected at least \d+ lines, one a pair, found 1"):
        EvaluationPairs.of(opened)
    (tmp_path / "dev.align").write_text("0-0\n40-0\n" * 1000)
    with pytest.raises(DataError, match=r"dev.align line 2: expected links between .*, found 40-0"):
        EvaluationPairs.of(opened)


def test_damaged_annotation_is_said_by_the_panel_of_a_server_that_runs(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(run: PageRun) -> None:
        raise DataError("dev.align: expected a line for each of dev.en, found 1")

    monkeypatch.setattr(EvaluationPairs, "of", damaged)
    page = Page(PageRun.open_all([run], "cpu"))
    page.renew(run.name)  # where training has written another development set
    found = page._evidence[run.name].to_json()
    assert found["status"] == "failed"
    assert found["about"] == "dev.align: expected a line for each of dev.en, found 1."


def test_pairs_that_are_longer_than_the_model_reads_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "short", max_length=40)
    fitting = [Annotated.of(text) for text in ENGLISH[:2]]
    long = Annotated.of(" ".join(ENGLISH))
    corpus = EvaluationPairs("some", [fitting[0], long, *fitting], [*fitting, fitting[0], long])
    answer = measured(run, EvaluationPairs("some", [*fitting, long], [*fitting, fitting[0]], [frozenset({(0, 0)})] * 3))
    assert answer["about"] == "2 sentences of some. 1 more are longer than the model reads."
    assert corpus.within(Translator.load(run, device="cpu")).sources == [fitting[0], fitting[0]]


def test_a_development_set_that_was_split_off_is_that_of_the_training(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    for code, side in (("en", ENGLISH), ("de", GERMAN)):
        lines = [f"{line} {number}\n" for number in range(20) for line in side]
        (tmp_path / f"train.{code}").write_text("".join(lines), encoding="utf-8")
    config = Config.load(path / "config.yaml")
    config.data = DataConfig(
        source=[str(tmp_path / "train.en")], target=[str(tmp_path / "train.de")], dev_pairs=3, workers=1
    )
    (path / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    (run,) = PageRun.open_all([path], "cpu").values()
    assert EvaluationPairs.of(run) is None
    held_out = prepare(config.data, SubwordConfig(size=80), path / "prepared", max_length=100)
    corpus = EvaluationPairs.of(run)
    assert corpus is not None
    assert corpus.texts(9) == (held_out.dev_source, held_out.dev_target)
    assert len(held_out.dev_source) == 3
    assert set(run.describe()["samples"]) <= set(held_out.dev_source)


def test_the_page_suggests_the_examples_beside_the_development_set_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_built_in("miniature", tmp_path / "corpus", "[de]*")
    path = make_run(tmp_path / "run")
    config = Config.load(path / "config.yaml")
    files = {
        f"dev_{side}": str(tmp_path / "corpus" / f"dev.{name}") for side, name in (("source", "en"), ("target", "de"))
    }
    data = config.data.model_copy(update=files)
    suggested = suggestions(path, data)
    assert suggested[: len(EXAMPLES)] == EXAMPLES
    assert len(suggested) > len(EXAMPLES)
    (tmp_path / "corpus" / "examples.en").write_bytes(b"\xff\x00\xff")
    assert len(suggestions(path, data)) == len(suggested) - len(EXAMPLES)
    # A folder that can't be looked into, as another user's may be.
    unknown = data.model_copy(
        update={name: str(tmp_path / ("d" * 300) / Path(file).name) for name, file in files.items()}
    )
    assert suggestions(path, unknown) == []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").write_text("Of a run without a development set, no file is beside it.")
    assert suggestions(path, config.data) == []

"""The look at the two texts of a new training: what stops it, what is said, and what passes without a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwise.api.training import TrainingRequest
from headwise.config import Config, DataConfig
from headwise.corpora.built_in import read_built_in
from headwise.errors import DataError
from headwise.text.reading import inspection
from headwise.text.reading.inspection import inspect_texts
from toy import toy_pairs

PAIRS, MANY = 300, 50_000
FRENCH = [
    "Le vieux chat dort parce qu'il est fatigué ce soir.",
    "La petite fille mange une pomme rouge dans la cuisine.",
    "Nous sommes allés au marché pour acheter du pain et du fromage.",
    "Pourquoi les enfants courent-ils toujours dans la rue ?",
]


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    english, german = (read_built_in("miniature", f"train.{code}")[:PAIRS] for code in ("en", "de"))
    return {"en": english, "de": german, "fr": FRENCH * (PAIRS // len(FRENCH))}


@pytest.fixture
def write(tmp_path: Path, texts: dict[str, list[str]]):
    def written(source: str, target: str, names: tuple[str, str] = ("a", "b"), **keys: str) -> DataConfig:
        for name, lines in zip(names, (source, target), strict=True):
            content = texts.get(lines, lines.split("\n"))
            (tmp_path / name).write_text("\n".join(content) + "\n", encoding="utf-8")
        return DataConfig(source=[str(tmp_path / names[0])], target=[str(tmp_path / names[1])], **keys)  # type: ignore[arg-type]

    return written


def test_what_is_as_declared_passes(write) -> None:
    (line,) = inspect_texts(write("en", "de", ("t.en", "t.de")), MANY)
    assert line == "texts: source English (15 of 15 samples), target German (15 of 15 samples)"
    assert inspect_texts(write("en", "de"), MANY) == [line]


@pytest.mark.parametrize(
    ("source", "target", "languages", "problem"),
    [
        ("en", "en", (None, None), "b: expected the translation of .*a, found the same text in 300 of 300 lines"),
        ("de", "en", ("en", "de"), "expected English as source, found German .*: the two sides are swapped"),
        ("en", "de", ("en", "fr"), "b: expected French as target, as --languages or .*, found German"),
        ("en", "de", ("en", "xx"), "b: expected 'xx' as target, .*, found German"),
        ("fr", "de", ("eng", "deu"), "a: expected eng as source|a: expected 'eng' as source"),
    ],
)  # fmt: skip
def test_what_is_surely_a_mistake_stops(write, source, target, languages, problem) -> None:
    keys = dict(zip(("source_language", "target_language"), languages, strict=True))
    with pytest.raises(DataError, match=problem) as raised:
        inspect_texts(write(source, target, **keys), MANY)
    assert str(raised.value).endswith("`--no-checks` trains nevertheless")


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [
        ("en", "de", ("en", "nl")),  # German and Dutch are taken for each other
        ("en", "de", ("en", "nds")),  # not recognized
        ("en", "de", ("en", "pb")),
    ],
)
def test_what_may_be_right_doesnt_stop(write, source, target, languages) -> None:
    keys = dict(zip(("source_language", "target_language"), languages, strict=True))
    if languages[1] == "pb":
        with pytest.raises(DataError, match="expected Portuguese"):
            inspect_texts(write(source, target, **keys), MANY)
    else:
        assert len(inspect_texts(write(source, target, **keys), MANY)) == 1


def test_all_else_is_said_in_one_paragraph(write, texts: dict[str, list[str]]) -> None:
    shifted = "\n".join(texts["de"][1:] + texts["de"][:1])
    (line,) = inspect_texts(write("en", shifted), 2_000)
    assert "the lengths of a pair's sides have little to do with each other (correlation " in line
    assert line.endswith(
        "2,000 pairs are few for a model that begins with nothing, whose translations will be poor; adapting a trained "
        "one would serve: `headwise import hf:Helsinki-NLP/opus-mt-en-de -o runs/opus`, for instance, then `--from "
        "runs/opus`"
    )
    half = "\n".join([*texts["en"][: PAIRS // 2], *texts["de"][PAIRS // 2 :]])
    (line,) = inspect_texts(write("en", half), MANY)
    assert "50% of the pairs are the same on both sides" in line
    (line,) = inspect_texts(write("fr", "\n".join(["fr"] * PAIRS)), MANY)
    assert "99% of the pairs are repetitions" in line
    assert "source French" not in line  # there is no target that could be named beside it
    (line,) = inspect_texts(write("de", "en"), MANY, ("en", "de"))
    assert "the run to begin from has English as source, this text German" in line
    assert "pairs are few" not in inspect_texts(write("en", "de"), 10, ("en", "de"))[0]


def test_text_that_is_no_language_passes(write) -> None:
    pairs = toy_pairs(PAIRS)
    source, target = ("\n".join(side) for side in zip(*pairs, strict=True))
    assert inspect_texts(write(source, target, ("a.en", "a.de")), MANY) == []


def test_without_the_library_the_rest_is_checked(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "installed", lambda package: False)
    (line,) = inspect_texts(write("de", "en", ("t.en", "t.de")), MANY)
    assert line == "texts: their languages aren't checked, which needs `pip install 'headwise[languages]'`"
    with pytest.raises(DataError, match="found the same text"):
        inspect_texts(write("en", "en"), MANY)


def test_only_a_new_training_from_two_files_is_checked(write, tmp_path: Path) -> None:
    data = write("en", "en")
    request = TrainingRequest(source=data.source, target=data.target, out=tmp_path / "run")
    with pytest.raises(DataError, match="found the same text"):
        request.plan()
    assert not any(line.startswith("texts:") for line in replace(request, checks=False).plan().reasons)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(Config(data=data).to_yaml())
    (tmp_path / "run" / "latest").write_text("step-1")
    assert request.plan().reasons == [f"{tmp_path / 'run'}: going on with its own configuration"]
    assert replace(request, config=Config()).plan().reasons == []

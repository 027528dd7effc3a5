"""`headwise back-translate`: synthetic sources, wherever interrupted, and the run that learns from the mix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwise.config import Config
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.tasks.distillation import translations
from headwise.text.tokens.subwords import Subwords
from program import Call, finish, headwise, result, start, wait_for
from toy import Toy, toy_pairs, write_toy

SMALL = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=16", "model.d_ff=32", "model.heads=2"),
    *("batch.tokens=400", "data.dev_pairs=10", "data.workers=1", "schedule.warmup=5", "subwords.size=60"),
    *("training.checkpoint_every=1", "training.validate_every=10", "training.average_last=1"),
    *("training.threads=1", "training.precision=float32", "training.processes=1", "training.products=torch"),
    *("--beam", "2", "--max-steps", "3"),
)  # fmt: skip


def command(reverse: Path, toy: Toy, monolingual: Path, *more: object) -> list[object]:
    """Return the command of a run from the toy's target to its source; `reverse` translates the other way."""
    real = ("--source", toy.target, "--target", toy.source)
    return ["back-translate", reverse, *real, "--monolingual", monolingual, *SMALL, *more]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def monolingual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of three chunks with an empty line."""
    toy = write_toy(tmp_path_factory.mktemp("monolingual"), toy_pairs(2 * translations.CHUNK + 5, seed=4))
    toy.source.write_text("\n" + toy.source.read_text())
    return toy.source


@pytest.fixture(scope="module")
def run(trained: Path, toy: Toy, monolingual: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("back") / "run"
    done = headwise(*command(trained, toy, monolingual, "-o", run))
    assert done.code == 0, done.err
    return run


def test_synthetic_sources_are_tagged_translations(
    trained: Path, toy: Toy, monolingual: Path, run: Path
) -> None:
    synthetic = run / "back-translated" / "source-1.txt"
    translated = Translator.load(trained).translate(lines(monolingual), SearchOptions(beam=2))
    assert lines(synthetic) == [f"<bt> {t.text}" if t.text else "" for t in translated]
    data = Config.of_run(run).data
    assert data.source == [str(toy.target), str(synthetic)]
    assert data.target == [str(toy.source), str(monolingual)]
    assert data.dev_files == 1
    subwords = Subwords.load(run)
    tagged, plain = (subwords.encode_source(text) for text in ("<bt> mo", "mo"))
    assert len(tagged) - len(plain) in (1, 2)  # the tag, and the space before it
    assert "<bt>" in subwords.source_pieces(tagged)


def test_a_kill_changes_nothing(
    trained: Path, toy: Toy, monolingual: Path, run: Path, tmp_path: Path
) -> None:
    again = tmp_path / "run"
    process = start(*command(trained, toy, monolingual, "-o", again))
    manifest = again / "back-translated" / "manifest.json"

    def begun() -> bool:
        return manifest.exists() and json.loads(manifest.read_text())["files"][0]["lines"] > 0

    wait_for(begun, process)
    process.kill()
    finish(process)
    resumed = headwise(*command(trained, toy, monolingual, "-o", again))
    assert resumed.code == 0, resumed.err
    names = ("source-1.txt", "manifest.json")
    assert [(again / "back-translated" / n).read_bytes() for n in names] == [
        (run / "back-translated" / n).read_bytes() for n in names
    ]
    assert result(again) == {**result(run), "state": result(again)["state"]}


def test_samples_with_a_share_and_without_a_tag(
    trained: Path, toy: Toy, tmp_path: Path, program: Call
) -> None:
    text, out = tmp_path / "more.txt", tmp_path / "run"
    text.write_text("".join(f"{line}\n" for line in lines(toy.source)[:50]))
    options = ("--sample", "--top-k", 5, "--no-tag", "--share", 0.25, "--seed", 3, "-o", out)
    done = program(*command(trained, toy, text, *options))
    assert done.code == 0, done.err
    search = SearchOptions(beam=2, sample=True, top_k=5, seed=3)
    sampled = [t.text for t in Translator.load(trained).translate(lines(text), search)]
    assert lines(out / "back-translated" / "source-1.txt") == sampled
    assert sampled != [t.text for t in Translator.load(trained).translate(lines(text), SearchOptions(beam=2))]
    config = Config.of_run(out)
    assert config.data.weights == [0.75, 0.25]
    assert config.subwords.symbols == []
    error = program(*command(trained, toy, text, "--no-tag", "-o", out)).error
    assert error.startswith(f"{out / 'back-translated'}: was begun with ")
    assert "sample=True, found sample=None now" in error


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--share", 1], "--share: expected a number between 0 and 1, found 1"),
        (["--source", "other"], "--target: expected one file for each of the 2 of --source, found 1"),
        (["--top-k", 5], "top_k: expected only together with sampling, found 5 in a beam search"),
        (
            ["data.source_language=de", "data.target_language=en"],
            "expected a run from en to de, found one from de to en",
        ),
    ],
)  # fmt: skip
def test_mistakes(
    more: list[object], sentence: str, trained: Path, toy: Toy, tmp_path: Path, program: Call
) -> None:
    reverse = trained
    if "data.source_language=de" in more:  # the reverse run has the same direction
        reverse = tmp_path / "same"
        reverse.mkdir()
        for file in trained.iterdir():
            (reverse / file.name).symlink_to(file)
        (reverse / "config.yaml").unlink()
        config = Config.of_run(trained)
        config.data.source_language, config.data.target_language = "de", "en"
        (reverse / "config.yaml").write_text(config.to_yaml())
    assert sentence in program(*command(reverse, toy, toy.source, *more, "-o", tmp_path / "run")).error
    assert not (tmp_path / "run" / "latest").exists()

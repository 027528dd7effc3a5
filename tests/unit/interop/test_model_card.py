"""Model cards of exports state what the run has recorded, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from headwise.cli.main import run as headwise
from translator_run import ENGLISH, GERMAN, make_run


def card(run: Path, out: Path) -> str:
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(out)]) == 0
    return (out / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained for a few steps, with a development set."""
    folder = tmp_path_factory.mktemp("card")
    for name, lines in (("text.en", ENGLISH), ("text.de", GERMAN)):
        (folder / name).write_text("\n".join(lines * 5) + "\n", encoding="utf-8")
    run = folder / "run"
    files = ["--source", str(folder / "text.en"), "--target", str(folder / "text.de")]
    shape = [
        "model.d_model=16",
        "model.d_ff=16",
        "model.heads=2",
        "model.encoder_layers=1",
        "model.norm=post",
    ]
    quick = ["training.threads=1", "batch.tokens=200", "training.seed=7", "subwords.size=60", "--max-steps=2"]
    assert headwise(["train", "--preset", "tiny", *files, *shape, *quick, "-o", str(run)]) == 0
    return run


def test_scores_signature_hardware_and_seed(trained: Path, tmp_path: Path) -> None:
    text = card(trained, tmp_path / "out")
    metric = BLEU()
    metric.corpus_score(["a"], [["a"]])
    (line,) = [line for line in text.splitlines() if line.startswith("| bleu |")]
    assert line.replace("\\|", "|").endswith(f"| `{metric.get_signature()}` |")
    records = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    (scores,) = [record for record in records if record["kind"] == "averaged"]
    assert f"| {scores['bleu']:.4g} |" in line
    assert f"| loss | {scores['loss']:.4g} |  |" in text
    assert ", seed 7" in text
    assert "text.en, text.de (checksum " in text
    measured = json.loads((trained / "measured.json").read_text())
    assert measured["hardware"]["processor"] in text
    assert "(1 threads" in text


def test_the_current_directory_has_a_name(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    assert "\n# run\n" in card(Path(), tmp_path / "out")


def test_ended_trainings_keep_their_record(trained: Path) -> None:
    file = trained / "measured.json"
    before = json.loads(file.read_text())
    file.write_text(json.dumps(before | {"hardware": {"processor": "another", "threads": 3, "gpus": []}}))
    files = ["--source", str(trained.parent / "text.en"), "--target", str(trained.parent / "text.de")]
    shape = [
        "model.d_model=16",
        "model.d_ff=16",
        "model.heads=2",
        "model.encoder_layers=1",
        "model.norm=post",
    ]
    quick = ["training.threads=1", "batch.tokens=200", "training.seed=7", "subwords.size=60", "--max-steps=2"]
    assert headwise(["train", "--preset", "tiny", *files, *shape, *quick, "-o", str(trained)]) == 0
    assert json.loads(file.read_text())["hardware"]["processor"] == "another"
    file.write_text(json.dumps(before))


def test_what_was_not_recorded_is_not_stated(trained: Path, tmp_path: Path) -> None:
    plain = card(make_run(tmp_path / "own", norm="post"), tmp_path / "plain")
    assert "Scores" not in plain
    assert "threads" not in plain
    file = trained / "measured.json"
    content = file.read_text()
    file.write_text(json.dumps(json.loads(content) | {"step": 99}))  # of other scores
    try:
        text = card(trained, tmp_path / "stale")
    finally:
        file.write_text(content)
    (line,) = [line for line in text.splitlines() if line.startswith("| bleu |")]
    assert line.endswith("| not recorded |")
    assert "threads" not in text


def test_a_damaged_record_gets_a_sentence(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trained / "measured.json"
    content = file.read_text()
    file.write_text("[]")
    try:
        assert headwise(["export", str(trained), "--to", "huggingface", "-o", str(tmp_path / "out")]) == 2
    finally:
        file.write_text(content)
    assert "measured.json: expected an object with hardware and signatures" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

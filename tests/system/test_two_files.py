"""docs/two-files.md runs, and what it says holds: the walk of a team that has two files."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwise
from docs_walk import walk, write_pairs
from program import call

SMALL = (
    "--max-steps 2 model.encoder_layers=1 model.decoder_layers=1 model.d_model=16 model.d_ff=16 model.heads=2 "
    "batch.tokens=512 data.dev_pairs=4 decoding.beam=2 decoding.extra_length=2 training.products=torch "
    "training.processes=1"
)


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, 300, test=6)
    for code in ("en", "de"):
        (tmp_path / f"new.{code}").write_text((tmp_path / f"test.{code}").read_text("utf-8") * 4, "utf-8")
    (tmp_path / "letter.html").write_text("<p>The old cat <b>sleeps</b>.</p>", "utf-8")
    adapted = "--max-steps 1 data.dev_pairs=4 training.processes=1 training.products=torch"
    changes = {"--max-minutes 20": SMALL, "--max-minutes 10": adapted}
    printed, _ = walk("two-files.md", tmp_path, capsys, changes)
    trained, evaluated, translated = printed[:3]
    assert trained.startswith(
        "texts: source English (15 of 15 samples), target German (15 of 15 samples); 300 pairs are"
    )
    assert "done: runs/de; try" in trained
    assert "BLEU" in evaluated
    run = headwise.load("runs/de")
    assert run.translate(["The old cat sleeps because it is tired."])[0].text in translated.splitlines()
    lines = (tmp_path / "test.out.de").read_text("utf-8").splitlines()
    assert lines == [t.text for t in run.translate((tmp_path / "test.en").read_text("utf-8").splitlines())]
    assert "<b>" in (tmp_path / "brief.html").read_text("utf-8")
    sizes = [(tmp_path / "runs" / name / "model.safetensors").stat().st_size for name in ("de", "de-int8")]
    assert sizes[1] < sizes[0]
    # what the page says of files in the wrong order, and of a command that is given again
    swapped = call(
        capsys, "train", "--source", "train.de", "--target", "train.en", "--languages", "en-de", "-o", "s"
    )
    assert "the two sides are swapped" in swapped.error
    assert not (tmp_path / "s").exists()
    again = call(capsys, "train", "-o", "runs/de", "--max-steps", 2)
    assert again.code == 0
    assert "already trained" in again.err

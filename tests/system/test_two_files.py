"""docs/two-files.md runs, and what it says holds: the walk of a team that has two files."""

from __future__ import annotations

from pathlib import Path

import headwise
from docs_walk import walk
from program import Call
from toy import shape
from world import write_world

SMALL = " ".join(
    [
        *("--max-steps 2", *shape(16, 16), "batch.tokens=512", "data.dev_pairs=4", "decoding.beam=2"),
        *("decoding.extra_length=2", "training.products=torch", "training.processes=1"),
    ]
)


def test_the_page(here: Path, program: Call) -> None:
    write_world(here, {"train": 300, "test": 6})
    for code in ("en", "de"):
        (here / f"new.{code}").write_text((here / f"test.{code}").read_text("utf-8") * 4, "utf-8")
    (here / "letter.html").write_text("<p>The old cat <b>sleeps</b>.</p>", "utf-8")
    adapted = "--max-steps 1 data.dev_pairs=4 training.processes=1 training.products=torch"
    changes = {"--max-minutes 20": SMALL, "--max-minutes 10": adapted}
    printed, _ = walk("two-files.md", here, program, changes)
    trained, evaluated, translated = printed[:3]
    assert trained.startswith(
        "texts: source English (15 of 15 samples), target German (15 of 15 samples); 300 pairs are"
    )
    assert "done: runs/de; try" in trained
    assert "BLEU" in evaluated
    run = headwise.load("runs/de")
    assert run.translate(["The old cat sleeps because it is tired."])[0].text in translated.splitlines()
    lines = (here / "test.out.de").read_text("utf-8").splitlines()
    assert lines == [t.text for t in run.translate((here / "test.en").read_text("utf-8").splitlines())]
    assert "<b>" in (here / "brief.html").read_text("utf-8")
    sizes = [(here / "runs" / name / "model.safetensors").stat().st_size for name in ("de", "de-int8")]
    assert sizes[1] < sizes[0]
    # what the page says of files in the wrong order, and of a command that is given again
    swapped = program("train", "--source", "train.de", "--target", "train.en", "--languages", "en-de", "-o", "s")
    assert "the two sides are swapped" in swapped.error
    assert not (here / "s").exists()
    assert "already trained" in program("train", "-o", "runs/de", "--max-steps", 2).ok().err

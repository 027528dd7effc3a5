"""`headwise reproduce report` generates the report from records only, and the committed report is up to date."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from headwise.experiments import table3, text_size
from headwise.experiments.harness.paper_claims import PAPER_CLAIMS
from headwise.experiments.harness.records import read_record
from headwise.experiments.harness.report import write_report
from headwise.experiments.harness.runner import NAMES, find_experiment, plan
from headwise.experiments.scales import SCALES
from headwise.experiments.trials import trial_rows, with_choices
from invented_records import invent
from paths import ROOT

pytestmark = pytest.mark.usefixtures("at_the_root")
_CHAPTERS = "src/headwise/learn/pages"
_TRAINED = "Gradient against distance for each architecture, trained on "


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, which takes most of the time of a report."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: None)


def fixture_records(results: Path) -> None:
    """Write invented results of the tiny Table 3 and its trials: one head is worse, the rest like base."""
    for row in trial_rows(SCALES["tiny"]):
        invent(results, row, 1, 75.0 if row.name.endswith("-x1") else 70.0)
    recipe = {"data": "0123456789ab", "hardware": {"gpus": ["a | b <GPU>"]}, "version": {"torch": "9"}}
    for job in plan(find_experiment("table3"), SCALES["tiny"], results=results, seeds=(2, 3)):
        score = 30.0 + 0.1 * job.seed - (2.0 if job.row.name == "table3-a-h1" else 0.0)
        invent(results, job.row, job.seed, score, **recipe)


def test_the_report_is_generated_from_records_only(tmp_path: Path) -> None:
    fixture_records(tmp_path / "results")
    files = write_report(tmp_path / "results", tmp_path / "docs")
    text = (tmp_path / "docs" / "reproduction" / "table3.md").read_text(encoding="utf-8")
    assert "| 24.9 |" in text
    assert "a \\| b <GPU>" in text
    page = (tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8")
    said = "confirmed. -2.00 ± 0.00 BLEU against base (2 seeds)."
    assert f"(A) A single head is worse than several: {said}" in text
    assert all(f"| {number} | {claim.text} | " in page for number, claim in enumerate(PAPER_CLAIMS, start=1))
    assert "images/reproduction/table3-tiny.png" in page
    assert "not run yet" in page
    pages = {file.stem: file.read_text(encoding="utf-8") for file in files if file.suffix == ".md"}
    assert "Nothing of it is recorded yet." in pages["sqrt-dk"]
    assert all(f"(reproduction/{name}.md)" in page for name in NAMES)
    images = [file for file in files if file.suffix == ".png"]
    assert images
    shown = "".join(pages.values())
    assert all(f"../images/reproduction/{image.name}" in shown for image in images)
    stale = tmp_path / "docs" / "reproduction" / "gone.md"
    stale.write_text("of an experiment that is no more")
    before = {file: file.read_bytes() for file in files}
    assert write_report(tmp_path / "results", tmp_path / "docs") == files
    assert before == {file: file.read_bytes() for file in files}  # the same records give the same report
    assert not stale.exists()


@pytest.mark.usefixtures("undrawn")
def test_a_part_of_the_text_is_no_earlier_version_of_it(tmp_path: Path) -> None:
    results, page = tmp_path / "results", tmp_path / "docs" / "reproduction" / "text-size.md"
    tiny = SCALES["tiny"]
    for row in trial_rows(tiny):
        invent(results, row, 1, 70.0)
    rows = {row.name: row for row in text_size.rows(with_choices(tiny, results))}
    for name, row in rows.items():
        invent(results, row, 2, 80.0, data="of a part" if name.startswith("size-") else tiny.checksum)
    write_report(results, tmp_path / "docs")
    assert "earlier version" not in page.read_text(encoding="utf-8")
    invent(results, rows["table2-luong"], 2, 80.0, data="another")
    write_report(results, tmp_path / "docs")
    assert "1 of the 3 were trained on an earlier version" in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_claim_is_quoted_from_the_largest_scale_that_decides_it(tmp_path: Path) -> None:
    """Table 3 with two seeds: one head is worse at both scales, without dropout only at the smaller."""
    results = tmp_path / "results"
    for name in ("tiny", "multi30k"):
        for row in trial_rows(SCALES[name]):
            invent(results, row, 1, 75.0 if row.name.endswith("-x1") else 70.0)
        for row in table3.rows(with_choices(SCALES[name], results)):
            for seed in (2, 3):
                worse = (20.0 if name == "tiny" else 21.0) * row.name.endswith("a-h1")
                worse += 9 * (row.name.endswith("drop0") and name == "tiny")
                invent(results, row, seed, 80.0 + seed - worse)
    write_report(results, tmp_path / "docs")
    lines = (tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8").split("\n")
    heads, bigger = (next(line for line in lines if line.startswith(f"| {number} |")) for number in (6, 8))
    assert "one head: **confirmed** at multi30k. -21.00 ± 0.00 BLEU against base (2 seeds)." in heads
    assert "(2 seeds). At tiny: confirmed." in heads
    assert "32 heads: **undecided** at tiny." in heads  # multi30k hasn't that row
    assert "no dropout: **confirmed** at tiny. -9.00 ± 0.00 BLEU against base" in bigger
    assert "At multi30k: undecided." in bigger
    assert "table3-multi30k.png" in "".join(lines)
    (results / "multi30k" / "table3-base.seed3.json").unlink()
    write_report(results, tmp_path / "docs")
    assert "table3-tiny.png" in (tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_the_committed_report_is_that_of_the_committed_records(tmp_path: Path) -> None:
    if not (ROOT / "results").exists():
        pytest.skip("no results are recorded in this checkout")
    docs, quoting = tmp_path / "docs", tmp_path / _CHAPTERS
    shutil.copytree(ROOT / _CHAPTERS, quoting)
    files = [file for file in write_report(ROOT / "results", docs) if file.suffix == ".md"]
    for file in files:
        committed = ROOT / file.relative_to(tmp_path)
        assert file.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), committed
    pages = [file for file in files if file.parent == docs / "reproduction"]
    assert len(pages) == len(list((ROOT / "docs" / "reproduction").iterdir()))
    generated = "".join(page.read_text(encoding="utf-8") for page in pages)
    chapters = "".join(file.read_text(encoding="utf-8") for file in files if file.parent == quoting)
    assert all(f"*{claim.text}* (section" in chapters for claim in PAPER_CLAIMS)
    words = len((docs / "reproduction.md").read_text(encoding="utf-8").replace("|", " ").split())
    assert words < 2000, f"the page of findings has {words} words"
    for once in ("**Table 1 of the paper, and counted here", "schedule.png", "gradients-untrained.png"):
        assert generated.count(once) == 1  # independent of the scale, so shown once for two recorded scales
    pictures = dict(re.findall(r"!\[(.*?)\]\((.*?)\)", generated))
    assert "gradients-trained-tiny.png" in pictures[f"{_TRAINED}tiny"]


def test_every_committed_record_belongs_to_a_row() -> None:
    rows = {
        scale.name: {
            row.name: row
            for name in NAMES
            for row in find_experiment(name).rows(find_experiment(name).at(scale, ROOT / "results"))
        }
        for scale in SCALES.values()
    }
    for file in sorted((ROOT / "results").glob("*/*.json")):
        record = read_record(file)
        assert record is not None
        assert rows.get(record.scale, rows["tiny"])[record.row].identity(record.seed) == record.identity, file
        assert file.name == f"{record.row}.seed{record.seed}.json"

"""The report, generated from the recorded results alone: a page of findings, and a page of details an experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import DataError
from headwise.experiments.harness.outcome import Chart, Finding, Table
from headwise.experiments.harness.paper_claims import PAPER_CLAIMS, Evidence, PaperClaim
from headwise.experiments.harness.records import Record, Results
from headwise.experiments.harness.rows import MeasuredRow, TrainingRow, configured
from headwise.experiments.harness.runner import NAMES, Experiment, collect, find_experiment
from headwise.experiments.scales import SCALES
from headwise.files import write_text
from headwise.learn.chapters import chapters

_PAGE, _DETAILS, _IMAGES = "reproduction.md", "reproduction", "images/reproduction"
_ABOUT = (
    "What the paper says, and what came out when it was run again here, on far smaller corpora: orders "
    "compare with the paper's, values don't. A claim about a difference is **confirmed** or **refuted**, at the scale "
    "that is named, where its whole 95 % interval over paired seeds says so, and **undecided** otherwise; what is "
    "counted or exact has a tolerance instead of an interval."
)
_HOW = (
    "Every row is one command, printed before it runs. A finished row is recorded in `results/`, with its machine, "
    "versions, seed and checksums, and never run again; `headwise reproduce report` makes these pages from them: "
    "change the records, not the pages. `headwise reproduce list` names all experiments and scales, `--dry-run` says "
    "what one costs on this machine, and `headwise reproduce table2 --show` prints the paper's own table beside ours. "
    "`headwise reproduce all` runs a row on each core; if they share a GPU, start NVIDIA's MPS before it "
    "(`nvidia-cuda-mps-control -d`): sixteen of Multi30k's then take about four minutes together on an H200."
)
# Charts on the page of findings: of each, the first that there is, at the largest scale whose rows have two seeds each.
_HEADLINES = (("table2",), ("table3",), ("length", "recall"))
_CHAPTERS = "src/headwise/learn/pages"
_QUOTE = re.compile(r"^(## What was found here\n\n).*?(?=^## )", re.DOTALL | re.MULTILINE)
_NEXT = "`headwise reproduce all --scale tiny`, `multi30k` or `open-en-de` runs what is missing or has too few seeds."
_NOTHING = "Nothing of it is recorded yet."


@dataclass(frozen=True)
class ReportSection:
    """The findings of an experiment at one scale; `shown` is what no smaller scale's section shows already."""

    experiment: Experiment
    results: Results
    finding: Finding
    shown: Finding

    @property
    def scale(self) -> str:
        """The scale's name; empty if the experiment's rows are the same at every scale."""
        rows = self.results.rows
        same = all(isinstance(row, MeasuredRow) and row.scale != self.results.scale.name for row in rows)
        return "" if same else self.results.scale.name

    @property
    def records(self) -> list[Record]:
        """The records of its rows, in the rows' order."""
        return [record for records in self.results.records.values() for record in records]


def write_report(results: Path, docs: Path) -> list[Path]:
    """Write reproduction.md, a page for each experiment in reproduction/, and the images; returns the files.

    In a checkout, the chapters beside `docs` that quote findings are among them. Removes pages and images that are no
    longer made. Raises `DataError` where there is no folder of records, or for a record that can't be read.
    """
    if not results.is_dir():
        raise DataError(f"{results}: expected the folder of the recorded results, found none")
    pages = {name: list(_sections(find_experiment(name), results)) for name in NAMES}
    charts = [
        chart
        for sections in pages.values()
        for section in sections
        if section.records
        for chart in section.shown.charts
    ]
    images = [chart.save(docs / _IMAGES) for chart in charts]
    texts = {docs / _DETAILS / f"{name}.md": _details(name, sections) for name, sections in pages.items()}
    texts[docs / _PAGE] = _findings(pages)
    for chapter in chapters(docs.parent / _CHAPTERS):
        text = chapter.read_text(encoding="utf-8")
        texts[chapter] = _QUOTE.sub(lambda found, name=chapter.stem: found[1] + _quote(name, pages), text)
    for file, text in texts.items():
        write_text(file, text)
    for stale in {*(docs / _IMAGES).glob("*.png"), *(docs / _DETAILS).glob("*.md")} - {*images, *texts}:
        stale.unlink()
    return [*texts, *images]


def _sections(experiment: Experiment, results: Path) -> Iterator[ReportSection]:
    """Yield an experiment at every scale with a record of that scale, or only at the smallest if there is none."""
    scales = [SCALES[experiment.scale]] if experiment.scale else SCALES.values()
    at_scales = [collect(experiment, scale, results) for scale in scales]
    recorded = [found for found in at_scales if _has_record_of_scale(found)]
    earlier: list[Finding] = []
    for found in recorded or at_scales[:1]:
        finding = experiment.find(found)
        yield ReportSection(experiment, found, finding, _without_repeats(finding, earlier))
        earlier.append(finding)


def _has_record_of_scale(results: Results) -> bool:
    """Whether a row that depends on the scale is recorded at this scale."""
    return any(results.records[row.name] for row in results.rows if row.scale == results.scale.name)


def _without_repeats(finding: Finding, earlier_findings: Sequence[Finding]) -> Finding:
    """Return a finding without what a smaller scale's section shows already, because it is the same at every scale."""
    tables = [table for earlier in earlier_findings for table in earlier.tables]
    charts = [chart.name for earlier in earlier_findings for chart in earlier.charts]
    claims = [claim for earlier in earlier_findings for claim in earlier.claims]
    return Finding(
        [table for table in finding.tables if table not in tables],
        [chart for chart in finding.charts if chart.name not in charts],
        [claim for claim in finding.claims if claim not in claims],
    )


# ------------------------------------------------------------------------------------------ the page of findings


def _findings(pages: dict[str, list[ReportSection]]) -> str:
    scales = [
        scale
        for scale in SCALES
        if any(section.scale == scale and section.records for sections in pages.values() for section in sections)
    ]
    about = "; ".join(f"`{scale}`: {SCALES[scale].about}" for scale in scales)
    parts = ["# The paper, run again", _ABOUT]
    if about:
        parts.append(f"The scales: {about}.")
    rows = tuple(
        (str(number), claim.text, "<br>".join(_found(claim, pages)), claim.section)
        for number, claim in enumerate(PAPER_CLAIMS, start=1)
    )
    claims = Table("", ("", "the paper's ten claims", "found here", "section"), rows)
    parts += ["## The paper's ten claims", _left_aligned(claims), _NEXT, *_headlines(pages)]
    links = "\n".join(
        f"- [{sections[0].experiment.title}]({_DETAILS}/{name}.md): {NAMES[name][1][0].lower()}{NAMES[name][1][1:]}"
        for name, sections in pages.items()
    )
    parts += ["## Details", links, "## How it is made", _HOW]
    return "\n\n".join(parts) + "\n"


def _headlines(pages: dict[str, list[ReportSection]]) -> Iterator[str]:
    """Yield the pictures of the page of findings, each with a link to its page."""
    charts = {
        chart.name: (chart, name, all(len(records) > 1 for records in section.results.records.values()))
        for name, sections in pages.items()
        for section in sections
        if section.records
        for chart in section.shown.charts
    }
    suffixes = ["", *(f"-{scale}" for scale in SCALES)]  # none where all scales are the same
    for names in _HEADLINES:
        at_scales = ([charts[key] for s in suffixes if (key := f"{name}{s}") in charts] for name in names)
        if found := next(filter(None, at_scales), None):
            chart, name, _ = next((one for one in reversed(found) if one[2]), found[0])
            yield f"{_image(chart, _IMAGES)} [Details]({_DETAILS}/{name}.md)."


def _found(claim: PaperClaim, pages: dict[str, list[ReportSection]]) -> list[str]:
    """Return what was found on a claim of the paper: a sentence for each evidence, with a link to its page."""
    if not claim.evidence:
        return [f"**not run yet.** {claim.instead}"]
    return [_evidence(evidence, pages[evidence.experiment]) for evidence in claim.evidence]


def _quote(chapter: str, pages: dict[str, list[ReportSection]]) -> str:
    """Return the section of a chapter on the claims that it explains, a list item for each evidence."""
    lines = []
    for claim in PAPER_CLAIMS:
        if claim.chapter == chapter:
            sections = "sections" if " and " in claim.section else "section"
            lines.append(f"*{claim.text}* ({sections} {claim.section})\n")
            lines += [f"- {found}" for found in _found(claim, pages)]
            lines.append("")
    text = "\n".join(lines).replace(f"]({_DETAILS}/", f"](../../../../docs/{_DETAILS}/")
    return f"{text}\nFrom the records, by `headwise reproduce report` ([all findings](../../../../docs/{_PAGE})).\n\n"


def _evidence(evidence: Evidence, sections: Sequence[ReportSection]) -> str:
    """Return the status and its reason at the largest scale that decides it, and the other scales' statuses."""
    by_scale = {
        section.scale: found for section in sections for found in section.finding.claims if found.text == evidence.claim
    }
    assert by_scale, f"{evidence.experiment} makes no claim {evidence.claim!r}"
    about = f"{evidence.about}: " if evidence.about else ""
    link = f"[{evidence.experiment}]({_DETAILS}/{evidence.experiment}.md)"
    run = {scale: found for scale, found in by_scale.items() if found.status != "not run yet"}
    if not run:
        return f"{about}**not run yet** ({link})"
    if len(run) > 1 and len(set(run.values())) == 1:  # it doesn't depend on the scale
        run = {"": next(iter(run.values()))}
    scale = max(run, key=lambda name: (run[name].status != "undecided", list(run).index(name)))
    at = f" at {scale}" if scale else ""
    others = "".join(f" At {name}: {found.status}." for name, found in run.items() if name != scale)
    return f"{about}**{run[scale].status}**{at}. {run[scale].because}{others} ({link})"


# ------------------------------------------------------------------------------------------ the pages of details


def _details(name: str, sections: Sequence[ReportSection]) -> str:
    experiment = sections[0].experiment
    parts = [f"# {experiment.title}", f"{NAMES[name][1]} [All findings](../{_PAGE})"]
    for section in sections:
        scale = section.scale
        if scale:
            parts.append(f"## At the scale {scale}")
        parts.append(f"`headwise reproduce {name}{f' --scale {scale}' if scale else ''}`")
        if not section.records:
            parts.append(_NOTHING)
            continue
        parts += [table.markdown() for table in section.shown.tables]
        parts += [_image(chart, f"../{_IMAGES}") for chart in section.shown.charts]
        parts += _mixed(section)
        if section.shown.claims:
            parts.append("\n".join(f"- {claim.sentence()}" for claim in section.shown.claims))
    records = {(record.scale, record.row, record.seed): record for section in sections for record in section.records}
    if records:
        parts += ["## Recipes", _left_aligned(_recipe_table([records[key] for key in sorted(records)]))]
    return "\n\n".join(parts) + "\n"


def _mixed(section: ReportSection) -> list[str]:
    """Return sentences where records differ in code or processor, or are of other text than the scale's today."""
    records = [record for record in section.records if record.scale == section.scale]
    base = section.results.scale.base
    whole = configured(base.file, base.changes).data.source
    parts = {
        row.name
        for row in section.results.rows
        if isinstance(row, TrainingRow) and row.configuration().data.source != whole
    }
    commits = {record.recipe.get("version", {}).get("commit") for record in records} - {None}
    hardware = [record.recipe.get("hardware", {}) for record in records]
    processors = sorted({one["processor"] for one in hardware if one.get("processor")})
    texts = [one.recipe["data"] for one in records if one.row not in parts and one.recipe.get("data")]
    checksum = section.results.scale.checksum
    other = sum(text != checksum for text in texts) if checksum else 0
    sentences = []
    if len(commits) > 1:
        sentences.append(f"These rows come from {len(commits)} versions of the code (see the recipes).")
    if len(processors) > 1:
        names = ", ".join(processors)
        sentences.append(f"These rows come from several processors ({names}): times don't compare.")
    if other:
        sentences.append(
            f"{other} of the {len(texts)} were trained on an earlier version of the scale's text, which is now "
            f"`{checksum}`; between versions of the text, a difference says little."
        )
    return [" ".join(sentences)] if sentences else []


def _recipe_table(records: Sequence[Record]) -> Table:
    return Table(
        "Every number's recipe",
        ("row", "scale", "seed", "identity", "data", "commit", "torch", "hardware"),
        tuple(_recipe_row(record) for record in records),
        "`results/SCALE/ROW.seedSEED.json` has a row's whole command, and the signatures of its BLEU; `headwise "
        "reproduce` as above with `--rows ROW --seeds SEED` runs it. Identity: digest of the row's configuration. "
        "Data: checksum of the training text. A `+` after a commit: with changes that weren't committed. Load: "
        "processes that wanted a processor at its end, itself included.",
    )


def _recipe_row(record: Record) -> tuple[str, ...]:
    recipe = record.recipe
    hardware, version = recipe.get("hardware", {}), recipe.get("version", {})
    machine = ", ".join(hardware.get("gpus") or [f"{hardware.get('processor')}, {hardware.get('threads')} threads"])
    if "load" in hardware:
        machine += f", load {hardware['load']:g}"
    return (
        record.row,
        record.scale,
        str(record.seed),
        record.identity,
        str(recipe.get("data", "")),
        str(version.get("commit") or ""),
        str(version.get("torch", "")),
        machine,
    )


def _image(chart: Chart, folder: str) -> str:
    return f"![{chart.text}]({folder}/{chart.name}.png)\n\n*{chart.text}.*"


def _left_aligned(table: Table) -> str:
    """Return a table in Markdown with all columns left-aligned and without its title."""
    return table.markdown().replace("---:", "---").partition("\n\n")[2]

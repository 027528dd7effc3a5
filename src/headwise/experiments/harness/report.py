"""The report: docs/reproduction.md and an HTML page, generated from the recorded results alone."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table
from headwise.experiments.harness.records import Record, Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import NAMES, Experiment, collect, find_experiment
from headwise.experiments.scales import SCALES
from headwise.files import write_text

_IMAGES = "images/reproduction"
_ABOUT = (
    "Made by `headwise reproduce report` from the records in `results/`; change those, not this page. What the paper "
    "says stands beside what was measured here, and every number's recipe is at the end. The paper's values come from "
    "WMT 2014 with 4.5 million pairs; ours from far smaller corpora, so signs and orders compare, values don't."
)
_NOTHING = "Nothing of it is recorded yet."
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a;
  background: #fff; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 0.5rem 0; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, .words th, .words td { text-align: left; vertical-align: top; }
.wide { overflow-x: auto; }
img { max-width: 100%; height: auto; }
.note { font-size: 0.85rem; color: #444; }
code { font-size: 0.85em; overflow-wrap: anywhere; }
"""


def write_report(results: Path, docs: Path) -> list[Path]:
    """Write reproduction.md, reproduction.html and their images; returns the files.

    Raises `DataError` for a record that can't be read.
    """
    sections = list(_sections(results))
    charts = [
        chart for _, results, finding in sections if any(results.records.values()) for chart in finding.charts
    ]
    images = {chart.name: chart.save(docs / _IMAGES) for chart in charts}
    for stale_image in sorted((docs / _IMAGES).glob("*.png")):
        if stale_image.stem not in images:
            stale_image.unlink()
    markdown, page = docs / "reproduction.md", docs / "reproduction.html"
    write_text(markdown, _markdown(sections))
    write_text(page, _html(sections))
    return [markdown, page, *images.values()]


Section = tuple[Experiment, Results, Finding]


def _sections(results: Path) -> Iterator[Section]:
    """Yield every experiment at every scale with a record of that scale, or only at the smallest if there is none."""
    for name in NAMES:
        experiment = find_experiment(name)
        results_by_scale = [collect(experiment, scale, results) for scale in SCALES.values()]
        recorded = [
            scale_results for scale_results in results_by_scale if _has_record_of_scale(scale_results)
        ]
        earlier_findings: list[Finding] = []
        for scale_results in recorded or results_by_scale[:1]:
            finding = experiment.find(scale_results)
            yield experiment, scale_results, _without_repeats(finding, earlier_findings)
            earlier_findings.append(finding)


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


def _has_record_of_scale(results: Results) -> bool:
    """Whether a row that depends on the scale is recorded at this scale."""
    return any(results.records[row.name] for row in results.rows if row.folder == results.scale.name)


def _heading(experiment: Experiment, results: Results) -> str:
    same_at_every_scale = all(
        isinstance(row, MeasuredRow) and row.folder != results.scale.name for row in results.rows
    )
    return experiment.title if same_at_every_scale else f"{experiment.title} ({results.scale.name})"


def _records(sections: Sequence[Section]) -> list[Record]:
    records = {
        (record.scale, record.row, record.seed): record
        for _, results, _ in sections
        for recorded in results.records.values()
        for record in recorded
    }
    return [records[key] for key in sorted(records)]


def _claims(sections: Sequence[Section]) -> list[tuple[str, Claim]]:
    """Return all claims with their sections' headings."""
    return [
        (_heading(experiment, results), claim)
        for experiment, results, finding in sections
        for claim in finding.claims
    ]


def _claim_table(sections: Sequence[Section]) -> Table:
    return Table(
        "Every claim, in one sentence",
        ("claim", "found", "because", "from"),
        tuple((claim.text, claim.status, claim.because, heading) for heading, claim in _claims(sections)),
    )


def _recipe_table(records: Sequence[Record]) -> Table:
    return Table(
        "Every number's recipe",
        ("row", "scale", "seed", "identity", "data", "commit", "torch", "hardware", "command"),
        tuple(_recipe_row(record) for record in records),
        "Identity: digest of the row's configuration. Data: checksum of the training text. A `+` after a commit: with "
        "changes that weren't committed. Load: processes that wanted a processor at its end, itself "
        "included. BLEU signatures are in the records.",
    )


def _recipe_row(record: Record) -> tuple[str, ...]:
    recipe = record.recipe
    hardware, version = recipe.get("hardware", {}), recipe.get("version", {})
    machine = ", ".join(
        hardware.get("gpus") or [f"{hardware.get('processor')}, {hardware.get('threads')} threads"]
    )
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
        record.command,
    )


def _markdown(sections: Sequence[Section]) -> str:
    parts = ["# The paper, run again", _ABOUT, "## What was found", _left_aligned(_claim_table(sections))]
    for experiment, results, finding in sections:
        parts.append(f"## {_heading(experiment, results)}")
        parts.append(f"`{_command(experiment, results)}`")
        if not any(results.records.values()):
            parts.append(_NOTHING)
            continue
        parts += [table.markdown() for table in finding.tables]
        parts += [
            f"![{chart.text}]({_IMAGES}/{chart.name}.png)\n\n*{chart.text}.*" for chart in finding.charts
        ]
        parts.append("\n".join(f"- {claim.sentence()}" for claim in finding.claims))
    parts += ["## Recipes", _left_aligned(_recipe_table(_records(sections)))]
    return "\n\n".join(parts) + "\n"


def _left_aligned(table: Table) -> str:
    """Return a table in Markdown with all columns left-aligned and without its title."""
    return table.markdown().replace("---:", "---").partition("\n\n")[2]


def _command(experiment: Experiment, results: Results) -> str:
    scale = results.scale.name if _heading(experiment, results) != experiment.title else ""
    return f"headwise reproduce {experiment.name}{f' --scale {scale}' if scale else ''}"


def _html(sections: Sequence[Section]) -> str:
    parts = ["<h1>The paper, run again</h1>", f"<p>{_inline(_ABOUT)}</p>", "<h2>What was found</h2>"]
    parts.append(_html_table(_claim_table(sections), words=True))
    for experiment, results, finding in sections:
        parts.append(f"<h2>{_inline(_heading(experiment, results))}</h2>")
        parts.append(f"<p><code>{html.escape(_command(experiment, results))}</code></p>")
        if not any(results.records.values()):
            parts.append(f"<p>{_NOTHING}</p>")
            continue
        parts += [_html_table(table) for table in finding.tables]
        parts += [_html_chart(chart) for chart in finding.charts]
        parts.append(
            "<ul>" + "".join(f"<li>{_inline(claim.sentence())}</li>" for claim in finding.claims) + "</ul>"
        )
    parts += ["<h2>Recipes</h2>", _html_table(_recipe_table(_records(sections)), words=True)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>The paper, run again</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _html_table(table: Table, *, words: bool = False) -> str:
    """Return a table as HTML in a scrollable region; with `words`, all columns are left-aligned."""
    header_cells = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in table.columns)
    body_rows = "".join(
        "<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>\n" for row in table.rows
    )
    note = f'<p class="note">{_inline(table.note)}</p>' if table.note else ""
    caption = f"<caption>{_inline(table.title)}</caption>"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(table.title, quote=True)}">'
        f"<table{' class=words' if words else ''}>{caption}<thead><tr>{header_cells}</tr></thead>\n"
        f"<tbody>{body_rows}</tbody></table></div>{note}"
    )


def _html_chart(chart: Chart) -> str:
    text = html.escape(chart.text, quote=True)
    return f'<figure><img src="{_IMAGES}/{chart.name}.png" alt="{text}"><figcaption>{text}.</figcaption></figure>'


def _inline(text: str) -> str:
    """Escape HTML, and mark text between backquotes as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))

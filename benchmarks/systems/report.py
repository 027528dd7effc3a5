"""Reports of benchmarks: the machine, and tables of results with the ratio to the best peer, as text and JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.systems import OWN
from benchmarks.systems.peer import Peer, Setting
from benchmarks.systems.pool import Measured
from headwise.files import write_text

_MEBI = 2**20


@dataclass(frozen=True)
class ReportRow:
    """One row of a table; every rate is the median over the rounds.

    `lowest` and `highest` are the slowest and the fastest round in tokens/s. Latencies are milliseconds per sentence,
    with batch size 1 only. Memory is resident memory in MiB, `libraries_memory` before the model was loaded.
    """

    system: str
    task: str
    model: str
    batch: int
    beam: int | None
    precision: str
    threads: int
    workers: int
    tokens_per_second: float | None
    ratio_to_best_peer: float | None
    detail: str = ""
    length: int | None = None
    vocabulary: int | None = None
    sentences_per_second: float | None = None
    lowest: float = 0.0
    highest: float = 0.0
    latency_median: float | None = None
    latency_99: float | None = None
    start_seconds: float = 0.0
    peak_memory: float = 0.0
    libraries_memory: float = 0.0
    same_outputs: float | None = None
    share_of_peak: float | None = None


def rows_of(
    results: Sequence[Measured],
    *,
    task: str,
    model: str,
    batch: int,
    beam: int | None = None,
    length: int | None = None,
    extra: dict[str, dict[str, Any]] | None = None,
) -> list[ReportRow]:
    """Return the results as rows, fastest first; `extra` adds fields by `peer setting`."""
    rates = {f"{r.peer} {r.setting}": statistics.median(r.rates()) for r in results}
    best = max((rates[f"{r.peer} {r.setting}"] for r in results if r.peer != OWN), default=None)
    rows = []
    for result in results:
        name = f"{result.peer} {result.setting}"
        decoding = beam is not None
        times = sorted(1e3 * t for each in result.rounds for t in each.get("times", [])) if batch == 1 else []
        rows.append(
            ReportRow(
                system=result.peer,
                task=task,
                model=model,
                batch=batch,
                beam=beam,
                precision=result.setting.precision,
                threads=result.setting.threads,
                workers=result.setting.workers,
                tokens_per_second=rates[name],
                ratio_to_best_peer=rates[name] / best if best else None,
                detail=result.setting.detail,
                length=length,
                sentences_per_second=statistics.median(result.rates("sentences")) if decoding else None,
                lowest=min(result.rates()),
                highest=max(result.rates()),
                latency_median=statistics.median(times) if times else None,
                latency_99=times[min(len(times) - 1, len(times) * 99 // 100)] if times else None,
                start_seconds=result.start_seconds,
                peak_memory=result.peak / _MEBI,
                libraries_memory=result.libraries / _MEBI,
                **(extra or {}).get(name, {}),
            )
        )
    return sorted(rows, key=lambda row: -rates[f"{row.system} {_setting(row)}"])


def _setting(row: ReportRow) -> Setting:
    return Setting(row.precision, row.threads, row.workers, row.detail)


def machine(device: str, threads: int, peers: Iterable[Peer]) -> dict[str, Any]:
    """Return a description of the machine, and the versions of Python and the systems."""
    versions: dict[str, str] = {"python": platform.python_version()}
    for peer in peers:
        versions |= peer.versions()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
        "threads": threads,
        "device": device,
        "versions": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def machine_lines(machine: dict[str, Any]) -> list[str]:
    """Return two lines that describe the machine and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return [
        f"{machine['date']}, {machine['processor']} ({machine['processors']} processors), {machine['device']}, "
        f"up to {machine['threads']} threads",
        versions,
    ]


def table(rows: Sequence[ReportRow]) -> str:
    """Return the rows as a Markdown table without empty columns."""
    columns = [(head, [cell(row) for row in rows]) for head, cell in _COLUMNS]
    return grid([(head, cells) for head, cells in columns if any(cells)])


def start_table(rows: Sequence[ReportRow]) -> str:
    """Return the rows of the benchmark `start` as a Markdown table."""
    cells = {
        "system": [row.system for row in rows],
        "until": [row.task.removeprefix("start: ") for row in rows],
        "seconds": [f"{row.start_seconds:.2f}" for row in rows],
        "x best peer": [_number(row.ratio_to_best_peer, ".2f") for row in rows],
    }
    return grid([(head, column) for head, column in cells.items() if any(column)])


def grid(columns: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return columns as a Markdown table: text left-aligned, numbers right-aligned."""
    widths = [max(len(head), *map(len, cells)) for head, cells in columns]
    numeric = [all(not cell or cell[0].isdigit() for cell in cells) for _, cells in columns]

    def line(cells: Iterable[str]) -> str:
        parts = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, numeric, strict=True)
        ]
        return f"| {' | '.join(parts)} |"

    rule = "|".join(
        "-" * (width + 1) + ":" if n else "-" * (width + 2) for width, n in zip(widths, numeric, strict=True)
    )
    body = [line(cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    return "\n".join([line(head for head, _ in columns), f"|{rule}|", *body])


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


_COLUMNS = (
    ("system", lambda r: r.system),
    ("precision", lambda r: r.precision),
    ("workers x threads", lambda r: f"{r.workers}x{r.threads}"),
    ("setting", lambda r: r.detail),
    ("tokens/s", lambda r: _number(r.tokens_per_second, ",.0f")),
    ("lowest–highest", lambda r: f"{r.lowest:,.0f}–{r.highest:,.0f}" if r.highest else ""),
    ("x best peer", lambda r: _number(r.ratio_to_best_peer, ".2f")),
    ("of peak", lambda r: _number(r.share_of_peak, ".0%")),
    ("sentences/s", lambda r: _number(r.sentences_per_second, ",.1f")),
    ("median ms", lambda r: _number(r.latency_median, ".2f")),
    ("99 % ms", lambda r: _number(r.latency_99, ".2f")),
    ("ready after s", lambda r: f"{r.start_seconds:.2f}"),
    ("peak MiB", lambda r: _number(r.peak_memory or None, ",.0f")),
    ("libraries MiB", lambda r: _number(r.libraries_memory or None, ",.0f")),
    ("same outputs", lambda r: _number(r.same_outputs, ".1%")),
)


def write_json(file: Path, machine: dict[str, Any], rows: Sequence[Any]) -> None:
    """Write the machine and the rows as JSON; raises `TrainingError` if that fails."""
    record = {"machine": machine, "rows": [asdict(row) for row in rows]}
    write_text(file, json.dumps(record, indent=1, ensure_ascii=False) + "\n")

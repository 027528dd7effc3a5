"""Charts that several experiments draw: quality against cost, quality against length, differences to base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from headwise.experiments.harness.outcome import BLEU, Chart, plain
from headwise.experiments.harness.records import Mean, Record, Results, mean
from headwise.experiments.harness.rows import ExperimentRow, TrainingRow
from headwise.experiments.paper import TABLE_2, TABLE_3, row_name
from headwise.experiments.scales import ARCHITECTURES, system_row_name
from headwise.models.counting import training_flops

COLORS = dict(zip(ARCHITECTURES, ("C1", "C3", "C5", "C9", "C2", "C0"), strict=True))


def trained_systems(results: Results) -> Iterator[tuple[str, TrainingRow, list[Record]]]:
    """Yield each system of table 2 with its row and its records without those that diverged, if there are any."""
    systems = {system_row_name(name): name for name in ARCHITECTURES}
    for row in results.rows:
        records = [r for r in results.records[row.name] if "diverged" not in r.result]
        if row.name in systems and records:
            assert isinstance(row, TrainingRow)
            yield systems[row.name], row, records


def quality_chart(results: Results, name: str, text: str) -> Chart:
    """Return the chart of development BLEU against operations of training, beside the paper's table 2.

    Lines: during training, the band is the interval; dots: the finished models, which may be averages.
    """

    def draw(figure: Figure) -> None:
        here, paper = map(plain, figure.subplots(1, 2, width_ratios=(3, 2)))
        for system, row, records in trained_systems(results):
            color, config = COLORS[system], row.configuration()
            tokens = results.mean(row.name, "target_tokens")
            score = results.mean(row.name, BLEU.path)
            assert tokens is not None
            assert score is not None
            points = _validations(records)
            x = [training_flops(config, value, results.scale.sentence) for value, _ in points]
            _draw_curve(here, x, [bleu for _, bleu in points], color, ARCHITECTURES[system])
            operations = training_flops(config, tokens.value, results.scale.sentence)
            _dot(here, operations, score.value, score.half, color)
        here.set_xscale("log")
        here.xaxis.set_minor_formatter(NullFormatter())  # labels between powers of ten would overlap
        here.set(xlabel="operations of training", ylabel="development BLEU", ylim=(0, None))
        within_bleu(here)
        here.set_title(f"here ({results.scale.name}, at equal parameters)", fontsize=9)
        here.legend(frameon=False, fontsize=7, loc="lower right")
        _papers(paper)

    return Chart(name, text, draw, (10, 4.2))


def _validations(records: Sequence[Record]) -> list[tuple[float, Mean]]:
    """Return the target tokens before each validation that all seeds have, and the mean of its BLEU."""
    curves = [{p["step"]: p["bleu"] for p in r.result["curve"] if "bleu" in p} for r in records]
    shared = sorted(set.intersection(*map(set, curves)))
    per_step = [r.result["target_tokens"] / r.result["steps"] for r in records]
    tokens = sum(per_step) / len(per_step)
    return [(tokens * step, mean([curve[step] for curve in curves])) for step in shared]


def draw_dots(axis: Axes, x: Sequence[float], means: Sequence[Mean], color: str, label: str) -> None:
    """Draw means of different numbers of seeds as dots with their intervals, hollow for one seed, and a line."""
    axis.plot(x, [m.value for m in means], color=color, linewidth=1, label=label)
    for place, each in zip(x, means, strict=True):
        _dot(axis, place, each.value, each.half, color)


def _draw_curve(axis: Axes, x: Sequence[float], means: Sequence[Mean], color: str, label: str) -> None:
    """Draw means of the same seeds as a line, with their interval as a band."""
    alone = "o" if len(means) == 1 else None  # no line goes through it
    axis.plot(x, [m.value for m in means], color=color, linewidth=1, label=label, marker=alone)
    low, high = ([m.value + sign * (m.half or 0.0) for m in means] for sign in (-1, 1))
    axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def within_bleu(axis: Axes) -> None:
    """End a vertical axis of BLEU at 0 and 100, where intervals reach beyond."""
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, 0.0), min(high, 101.0))  # a line at 100 stays visible


def _dot(axis: Axes, x: float, y: float, half: float | None, color: str, *, across: bool = False) -> None:
    """Draw a mean with its interval, vertical or `across`; hollow if it is of a single seed."""
    errors = (half or 0.0, None) if across else (None, half or 0.0)
    fill = "white" if half is None else color
    axis.errorbar(x, y, errors[1], errors[0], fmt="o", color=color, markerfacecolor=fill, capsize=2)


def _papers(axis: Axes) -> None:
    """Draw the single models of the paper's table 2 whose cost it states for English to German."""
    for system in TABLE_2:
        cost = system.flops or system.flops_en_de
        if cost is None or system.en_de is None or "Ensemble" in system.name:
            continue
        color = "C0" if system.name.startswith("Transformer") else "0.5"
        axis.plot(cost, system.en_de, "o", color=color)
        label = system.name.replace(" model)", ")")
        axis.annotate(label, (cost, system.en_de), (6, -3), textcoords="offset points", fontsize=7)
    axis.set_xscale("log")
    axis.set(xlabel="operations of training", ylabel="BLEU on newstest2014", xlim=(2e18, 1e20))
    axis.set_title("the paper (WMT 2014 English→German, single models)", fontsize=9)


_LABELS = {"bleu": "development BLEU", "loss": "development loss (nats a subword)"}


def curve_charts(
    results: Results, rows: Sequence[ExperimentRow], name: str, text: str, value: str, *, along: str = "step"
) -> list[Chart]:
    """Return the chart of a value of development against steps or `minutes`, if any of the rows is recorded.

    It shows the first seed of each row. Lines: during training; dots: the finished models, which may be averages.
    """
    shown = [(row.label, record) for row in rows if (record := results.first(row.name)) is not None]

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for index, (row, record) in enumerate(shown):
            color = f"C{index}"
            points = [point for point in record.result.get("curve", []) if value in point]
            axis.plot([p[along] for p in points], [p[value] for p in points], color=color, label=row)
            ends = {"step": record.result["steps"], "minutes": record.result["seconds"] / 60}
            _dot(axis, ends[along], record.result["dev"][value], None, color)
        axis.set(xlabel=along, ylabel=_LABELS[value])
        axis.legend(frameon=False, fontsize=8)

    return [Chart(name, f"{text}; dots: the finished models", draw)] if shown else []


def length_chart(results: Results, name: str) -> Chart | None:
    """Return the chart of test BLEU by length of the source, None if no record has it."""
    shown = [
        (system, row, records[0].result["test"]["by_length"])
        for system, row, records in trained_systems(results)
        if all("by_length" in record.result.get("test", {}) for record in records)
    ]
    if not shown:
        return None

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for system, row, groups in shown:
            means = [results.mean(row.name, f"test.by_length.{longest}.bleu") for longest in groups]
            x = [int(longest) for longest in groups]
            _draw_curve(axis, x, [m for m in means if m is not None], COLORS[system], ARCHITECTURES[system])
            axis.set_xticks(x)
        axis.set(xlabel="words of the source, at most", ylabel="test BLEU, 95 % interval")
        within_bleu(axis)
        figure.legend(loc="outside right center", frameon=False, fontsize=8)

    return Chart(name, "Quality of each system against the length of the source", draw, (9, 3.8))


def difference_chart(results: Results, name: str, text: str) -> Chart | None:
    """Return the dot plot of BLEU less base's, here and in the paper; None if there is nothing to compare."""
    base, papers = row_name("base"), {row_name(line.preset): line for line in TABLE_3}
    shown = [
        (row.name, row.label, difference)
        for row in results.rows
        if row.name != base and (difference := results.difference(row.name, base, BLEU.path)) is not None
    ]
    if not shown:
        return None

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for y, (row, _, difference) in enumerate(shown):
            _dot(axis, difference.value, y, difference.half, "C0", across=True)
            if row in papers:
                axis.plot(papers[row].bleu - TABLE_3[0].bleu, y, "x", color="C3")
        axis.axvline(0, color="0.7", linewidth=1)
        axis.set_yticks(range(len(shown)), [label for _, label, _ in shown], fontsize=8)
        axis.invert_yaxis()
        axis.set(xlabel="BLEU less base's: dots here (95 % interval; hollow: one seed), crosses in the paper")

    return Chart(name, text, draw, (8, 0.24 * len(shown) + 1.2))

"""Quality against the size of the text: three systems of table 2, on an eighth, a quarter, a half and all of it.

Each system has the settings that its trials on all of the text have chosen (see `trials`), and trains until its rate is
zero. A half is every second pair and so on, so a smaller text is part of a larger one; its subwords are its own.
Where the Transformer is behind, this tells whether it is so for want of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from headwise.experiments import table2
from headwise.experiments.charts import COLORS, draw_dots, within_bleu
from headwise.experiments.harness.outcome import BLEU, Chart, Claim, Finding, Table, judge_gain, plain
from headwise.experiments.harness.records import Mean, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.harness.texts import part_of
from headwise.experiments.scales import ARCHITECTURES, Scale, system_row_name
from headwise.experiments.trials import budget_note, how_to_continue, with_choices

_RECURRENT = "luong"
_SYSTEMS = (_RECURRENT, "convs2s", "transformer")
_TEST = "test.tokenized_bleu.score"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the rows on parts of the text and, from table 2, on all of it, of each system whose trials are done.

    None at a scale whose text isn't divided.
    """
    whole = {row.name: row for row in table2.rows(scale)} if scale.parts else {}
    return [
        row if of == 1 else _part_row(row, system, of)
        for system in _SYSTEMS
        if (row := whole.get(system_row_name(system))) is not None
        for of in (*scale.parts, 1)
    ]


def _part_row(row: TrainingRow, system: str, of: int) -> TrainingRow:
    data = row.configuration().data
    text = [
        f"data.{side}=[{', '.join(part_of(file, of) for file in files)}]"
        for side, files in (("source", data.source), ("target", data.target))
    ]
    return replace(row, name=_name(system, of), label=f"{row.label}, 1/{of}", changes=replaced(row.changes, text))


def _name(system: str, of: int) -> str:
    return system_row_name(system) if of == 1 else f"size-{system}-{of}"


def find(results: Results) -> Finding:
    """Tabulate and draw quality by the share of the text, and whether the Transformer gains on recurrence with it."""
    scale = results.scale
    parts = (*scale.parts, 1)
    shown = [system for system in _SYSTEMS if system in scale.chosen]
    means = {system: list(_means(results, system)) for system in shown}
    if not any(len(points) > 1 for points in means.values()):  # all of the text is in table 2
        return Finding([], [], [_claim(results)])
    tables = [
        Table(
            f"{title} BLEU by the share of the text ({scale.about})",
            ("system", "seeds", *("all" if of == 1 else f"1/{of}" for of in parts)),
            tuple(
                (
                    ARCHITECTURES[system],
                    ", ".join(results.seeds(_name(system, of)) for of in parts),
                    *(results.cell(_name(system, of), path) for of in parts),
                )
                for system in shown
            ),
            more,
        )
        for title, path, more in (
            ("Development", BLEU.path, ""),
            (
                "Test",
                _TEST,
                f"{budget_note(scale)} BLEU as the paper computes it, a mean over seeds with its 95 % interval.",
            ),
        )
    ]
    return Finding(tables, [_chart(scale, means)], [_claim(results)])


def _means(results: Results, system: str) -> Iterator[tuple[float, Mean]]:
    """Yield the share of the text and the mean BLEU of what is recorded of a system."""
    for of in (*results.scale.parts, 1):
        score = results.mean(_name(system, of), _TEST)
        if score is not None:
            yield 1 / of, score


def _chart(scale: Scale, means: dict[str, list[tuple[float, Mean]]]) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for system, points in means.items():
            shares, scores = [share for share, _ in points], [score for _, score in points]
            draw_dots(axis, shares, scores, COLORS[system], ARCHITECTURES[system])
        ticks = [1 / of for of in (*scale.parts, 1)]
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [*(f"1/{of}" for of in scale.parts), "all"])
        axis.set(xlabel=f"share of the text of {scale.name}", ylabel="test BLEU, 95 % interval; hollow: one seed")
        within_bleu(axis)
        axis.legend(frameon=False, fontsize=8, loc="lower right")

    return Chart(f"text-size-{scale.name}", "Test BLEU of three systems against the size of the text", draw)


def _claim(results: Results) -> Claim:
    """Judge how much further the Transformer is ahead on all of the text than on the least of it."""
    text = "With more text, the Transformer gains on the recurrent system"
    least = max(results.scale.parts, default=1)
    few, whole = ((_name("transformer", of), _name(_RECURRENT, of), _TEST) for of in (least, 1))
    of = f"BLEU on all of the text against 1/{least} of it, relative to the recurrent system"
    return judge_gain(results, text, whole, few, of, how_to_continue(results.scale))


EXPERIMENT = Experiment("text-size", "Quality by the size of the text", rows, find, seeds=(), tune=with_choices)

"""Table 2: the Transformer against the systems that it replaced, at equal parameters and at equal training time."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from headwise.config import Config
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Status, Table, decide, plain
from headwise.experiments.harness.paper import System, system
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.harness.scoring import minutes_to
from headwise.experiments.scales.scale import ARCHITECTURES, Recipe, Scale
from headwise.models.counting import training_flops

_PAPER = {
    "gnmt": "GNMT + RL",
    "convs2s": "ConvS2S",
    "transformer": "Transformer (base model)",
    "transformer-big": "Transformer (big)",
    "transformer-fr": "Transformer (base model)",
    "transformer-big-fr": "Transformer (big)",
}
_LABELS = {
    **ARCHITECTURES,
    "transformer-big": "Transformer (big)",
    "transformer-fr": "Transformer (base), English→French",
    "transformer-big-fr": "Transformer (big), English→French",
}
_TOKENIZED, _SACRE, _PERPLEXITY = "test.tokenized_bleu.score", "test.bleu.score", "test.perplexity.word"


def rows(scale: Scale) -> list[TrainingRow]:
    """Every system with its own budget of steps, then every system with the same minutes."""
    equal = systems(scale)
    more = [
        TrainingRow(
            f"table2-{name}", _LABELS[name], scale.name, recipe.file, recipe.changes, test=recipe.test
        )
        for name, recipe in scale.more.items()
    ]
    timed = [
        TrainingRow(
            f"table2-time-{name}",
            _LABELS[name],
            scale.name,
            recipe.file,
            replaced(recipe.changes, _timed(recipe, scale)),
        )
        for name, recipe in scale.systems.items()
    ]
    return [*equal, *more, *timed]


def systems(scale: Scale) -> list[TrainingRow]:
    """Every system at equal parameters."""
    return [
        TrainingRow(f"table2-{name}", _LABELS[name], scale.name, recipe.file, recipe.changes)
        for name, recipe in scale.systems.items()
    ]


def _timed(recipe: Recipe, scale: Scale) -> list[str]:
    """End by the clock, with a rate that doesn't need to know the last step."""
    timed = [f"training.max_minutes={scale.minutes:g}", "training.max_steps=10000000", *scale.timed]
    falls_to_zero = Config.load(recipe.file, recipe.changes).schedule.name in {"linear", "cosine"}
    return [*timed, "schedule.name=inverse_sqrt"] if falls_to_zero else timed


def find(results: Results) -> Finding:
    """Compare all systems, first at equal parameters, then at equal time."""
    scale = results.scale
    level = _level(results)
    tables = [
        _table(results, "", f"At equal parameters ({scale.about})", level),
        _table(results, "time-", f"At equal training time, {scale.minutes:g} minutes each", None),
    ]
    claims = [
        _best_claim(
            results, "", "The Transformer is better than recurrent and convolutional systems of its size"
        ),
        _best_claim(results, "time-", "The Transformer is better than they are after the same training time"),
        _cost_claim(results, level),
    ]
    curves = [_curve(results, name) for name in scale.systems]
    charts = [_chart(results)] if any(curves) else []
    return Finding(tables, charts, claims)


def _level(results: Results) -> float | None:
    """A development BLEU that every system with attention reaches: the worst one's best, rounded down."""
    names = [name for name in results.scale.systems if name != "sutskever"]
    records = [results.first(f"table2-{name}") for name in names]
    best = [
        max((point["bleu"] for point in record.result.get("curve", []) if "bleu" in point), default=0.0)
        for record in records
        if record is not None
    ]
    return float(int(min(best))) if best and min(best) >= 1 else None


def _curve(results: Results, name: str, kind: str = "") -> list[dict[str, float]]:
    """Return a run's validations; the minutes before each are its tokens at the system's speed, if that is known."""
    record = results.first(f"table2-{kind}{name}")
    if record is None or "diverged" in record.result:
        return []
    clock = _clock(results, name)
    if clock is None:
        return []
    minutes = record.result["target_tokens"] / clock["speed"] / 60
    return [
        {**point, "minutes": minutes * point["step"] / record.result["steps"]}
        for point in record.result["curve"]
    ]


def _clock(results: Results, name: str) -> dict[str, float] | None:
    """Return target tokens a second in training and sentences a second in decoding.

    They are those of the run by the clock alone: these runs need one condition for all systems, the others don't.
    """
    record = results.first(f"table2-time-{name}")
    if record is None:  # as rows of one pair of languages have none
        record = results.first(f"table2-{name}") if name in results.scale.more else None
    if record is None or "diverged" in record.result:
        return None
    result = record.result
    share, minutes = 1.0, result["seconds"] / 60
    if result["curve"]:  # whose minutes leave validations out
        last = result["curve"][-1]
        share, minutes = last["step"] / result["steps"], last["minutes"]
    return {
        "speed": result["target_tokens"] * share / minutes / 60,
        "decoded": result["decoding"]["sentences_per_second"],
    }


def _table(results: Results, kind: str, title: str, level: float | None) -> Table:
    scale = results.scale
    names = list(scale.systems) if kind else [*scale.systems, *scale.more]
    to_level = f"min to {level:.0f} dev BLEU" if level else "min to BLEU"
    return Table(
        title,
        (
            "system", "parameters", "BLEU as the paper", "sacreBLEU", "PPL", "min", to_level, "target tokens/s",
            "operations", "sentences/s decoded", "paper BLEU", "paper operations",
        ),
        tuple(_line(results, kind, name, level) for name in names),
        f"{_bleu_note(scale)} PPL: of a word of the test set. Minutes and speeds: tokens at the speed of the run by "
        "the clock; operations by formula, forward and backward. The paper's columns are newstest2014, another task: "
        "compare orders, not values. "
        f"Alike for all systems: {scale.comparison.treatment}. {_tuning_note(scale)}"
        + (" A rate that would fall to zero falls with the steps' inverse square root here." if kind else ""),
    )  # fmt: skip


def _bleu_note(scale: Scale) -> str:
    if scale.test.form == "given":
        return "BLEU as the paper: on the text as it is given, without another tokenization."
    compounds = ", German compounds split at hyphens" if scale.test.compounds else ""
    return f"BLEU as the paper: text tokenized as Moses does it{compounds}; sacreBLEU on plain text (wmt14/full)."


def _tuning_note(scale: Scale) -> str:
    rates = ", ".join(f"{rate:g}" for rate in scale.comparison.tried)
    if not rates:
        return "Each one's own: its model and its learning rate."
    return (
        f"Each one's own: its model, and the learning rate; `headwise reproduce tuning --scale {scale.name}` tries "
        f"{rates} with all of them for {scale.comparison.steps:,} steps."
    )


def _line(results: Results, kind: str, name: str, level: float | None) -> tuple[str, ...]:
    row = f"table2-{kind}{name}"
    record = results.first(row)
    paper = system(_PAPER[name]) if name in _PAPER else None
    ours: tuple[str, ...] = ("–",) * 9
    if record is not None and "diverged" in record.result:
        ours = ("", "diverged", *("–",) * 7)
    elif record is not None:
        result, clock = record.result, _clock(results, name)
        tokens = result["target_tokens"]
        reached = minutes_to(_curve(results, name, kind), level) if level else None
        ours = (
            f"{result['parameters'] / 1e6:.2f} M",
            results.cell(row, _TOKENIZED),
            results.cell(row, _SACRE),
            results.cell(row, _PERPLEXITY),
            "–" if clock is None else f"{tokens / clock['speed'] / 60:.1f}",
            "–" if reached is None else f"{reached:.1f}",
            "–" if clock is None else f"{clock['speed']:,.0f}",
            f"{_flops(results, row, result):.1e}",
            "–" if clock is None else f"{clock['decoded']:.1f}",
        )
    return (_LABELS[name], *ours, *_paper_cells(paper, name.endswith("-fr")))


def _flops(results: Results, row: str, result: dict[str, Any]) -> float:
    made = next(r for r in results.rows if r.name == row)
    assert isinstance(made, TrainingRow)
    return training_flops(made.configuration(), result["target_tokens"], results.scale.sentence)


def _paper_cells(paper: System | None, french: bool) -> tuple[str, str]:
    if paper is None:
        return ("", "")
    cost = paper.flops or (paper.flops_en_fr if french else paper.flops_en_de)
    return (str(paper.en_fr if french else paper.en_de), "" if cost is None else f"{cost:.1e}")


def _best_claim(results: Results, kind: str, text: str) -> Claim:
    names = {name: f"table2-{kind}{name}" for name in results.scale.systems}
    missing = results.missing(*names.values())
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    scores = {name: results.mean(row, _TOKENIZED) for name, row in names.items()}
    found = {name: score.value for name, score in scores.items() if score is not None}
    transformer = found.pop("transformer", 0.0)
    best = max(found, key=lambda name: found[name])
    seeds = min(len(results.values(row, _TOKENIZED)) for row in names.values())
    because = (
        f"{transformer:.2f} BLEU against {found[best]:.2f} of the best other one, {_LABELS[best]} "
        f"({results.scale.name}, {seeds} seed{'s' if seeds != 1 else ''})."
    )
    return Claim(text, decide(transformer > found[best]), because)


def _cost_claim(results: Results, level: float | None) -> Claim:
    text = "The Transformer reaches a given quality with less training than the others"
    names = list(results.scale.systems)
    missing = results.missing(*(f"table2-{kind}{name}" for name in names for kind in ("", "time-")))
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    times = {name: minutes_to(_curve(results, name), level) for name in names} if level else {}
    reached = {name: minutes for name, minutes in times.items() if minutes is not None}
    if level is None or not reached:
        status: Status = "not testable at this scale"
        return Claim(text, status, "Not every system with attention reached one BLEU point.")
    order = ", ".join(
        f"{_LABELS[name]} {reached[name]:.1f}" for name in sorted(reached, key=lambda n: reached[n])
    )
    fastest = min(reached, key=lambda name: reached[name])
    return Claim(text, decide(fastest == "transformer"), f"Minutes to {level:.0f} dev BLEU: {order}.")


def _chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        panels = (("", "at equal parameters"), ("time-", "at equal training time"))
        for axis, (kind, title) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
            plain(axis)
            for color, name in zip(("C1", "C3", "C5", "C9", "C2", "C0"), results.scale.systems, strict=True):
                points = [point for point in _curve(results, name, kind) if "bleu" in point]
                if points:
                    axis.plot(
                        [p["minutes"] for p in points],
                        [p["bleu"] for p in points],
                        color=color,
                        label=_LABELS[name],
                    )
            axis.set(xlabel="minutes of training", title=title)
        figure.axes[0].set_ylabel("development BLEU")
        figure.axes[0].legend(frameon=False, fontsize=7)

    return Chart(
        f"table2-{results.scale.name}",
        "Development BLEU against training time for each system",
        draw,
        (10, 3.8),
    )


EXPERIMENT = Experiment("table2", "Table 2: against the systems it replaced", rows, find)

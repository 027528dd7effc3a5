"""Three experiments on normalization: the need for learning-rate warm-up, pre-norm against post-norm, and depth."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.config import Config
from headwise.experiments.charts import curve_charts
from headwise.experiments.harness.outcome import BLEU, Chart, Finding, Measure, Table, compare, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale

_LABELS = {
    "warm-up-post": "post-norm, warm-up",
    "warm-up-none-post": "post-norm, none",
    "warm-up-pre": "pre-norm, warm-up",
    "warm-up-none-pre": "pre-norm, none",
}
_DEPTHS = (6, 12, 18, 24)
_PERPLEXITY = "dev.perplexity"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return pre-norm and post-norm rows with and without warm-up; the rate decays linearly from base's peak to 0."""
    file, changes = scale.base.file, scale.base.changes
    base = Config.load(file, changes)
    peak = base.schedule.peak or base.model.d_model**-0.5 * base.schedule.warmup**-0.5
    training_rows = []
    for name, label in _LABELS.items():
        warmup = 0 if "none" in name else base.schedule.warmup
        overrides = (
            f"model.norm={name.rsplit('-', 1)[1]}",
            "schedule.name=linear",
            f"schedule.peak={peak:.6f}",
            f"schedule.warmup={warmup}",
            "training.average_last=1",
        )
        training_rows.append(TrainingRow(name, label, scale.name, file, replaced(changes, overrides)))
    return training_rows


def table(results: Results) -> Table:
    """Return the table of the four rows."""
    return Table(
        f"Normalization and warm-up ({results.scale.about})",
        ("training", "dev PPL", "dev BLEU"),
        tuple(
            (label, results.cell(name, "dev.perplexity"), results.cell(name, BLEU.path))
            for name, label in _LABELS.items()
        ),
        "The rate rises to the peak that the base has, or starts there, and falls linearly to zero.",
    )


def find(results: Results) -> Finding:
    """Compare training with and without warm-up, for post-norm and pre-norm."""
    claims = [
        compare(
            results,
            f"{norm.capitalize()}-norm {text}",
            f"warm-up-{norm}",
            f"warm-up-none-{norm}",
            BLEU,
            1,
            "none",
        )
        for norm, text in (("post", "needs warm-up"), ("pre", "gains from warm-up, too"))
    ]
    return Finding([table(results)], charts(results), claims)


def charts(results: Results) -> list[Chart]:
    """Return the chart of development loss against steps, if any row is recorded."""
    name = f"warm-up-{results.scale.name}"
    return curve_charts(results, results.rows, name, "Development loss against steps", "loss")


def find_order(results: Results) -> Finding:
    """Compare pre-norm and post-norm, with and without warm-up."""
    without, with_ = (
        "Without warm-up, pre-norm is the one that trains",
        "With warm-up, post-norm is the better one",
    )
    claims = [
        compare(results, without, "warm-up-none-pre", "warm-up-none-post", BLEU, 1, "post-norm"),
        compare(results, with_, "warm-up-post", "warm-up-pre", BLEU, 1, "pre-norm"),
    ]
    return Finding([table(results)], charts(results), claims)


WARM_UP = Experiment("warm-up", "Warm-up", rows, find)
ORDER = Experiment("norm", "Pre-norm and post-norm", rows, find_order)


def _depth_row_name(norm: str, depth: int) -> str:
    return f"depth-{norm}-{depth}"


def depth_rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each depth and normalization: the scale's base with `Scale.deep`'s overrides and more layers."""
    file, changes = scale.base.file, scale.base.changes
    return [
        TrainingRow(
            _depth_row_name(norm, depth),
            f"{norm}-norm, {depth} layers",
            scale.name,
            file,
            replaced(
                changes,
                (
                    *scale.deep,
                    f"model.norm={norm}",
                    f"model.encoder_layers={depth}",
                    f"model.decoder_layers={depth}",
                    "training.average_last=1",
                ),
            ),
        )
        for depth in _DEPTHS
        for norm in ("post", "pre")
    ]


def find_depth(results: Results) -> Finding:
    """Compare pre-norm and post-norm at the greatest depth."""
    table = Table(
        f"Depth ({results.scale.about})",
        ("layers in each stack", "post-norm PPL", "pre-norm PPL", "post-norm BLEU", "pre-norm BLEU"),
        tuple(
            (
                str(depth),
                *(results.cell(_depth_row_name(norm, depth), _PERPLEXITY) for norm in ("post", "pre")),
                *(results.cell(_depth_row_name(norm, depth), BLEU.path) for norm in ("post", "pre")),
            )
            for depth in _DEPTHS
        ),
        "On development data.",
    )
    text, deepest = "Deep stacks train with pre-norm where post-norm fails", _DEPTHS[-1]
    pre, post = (_depth_row_name(norm, deepest) for norm in ("pre", "post"))
    loss = Measure("dev.loss", "nats a subword", more_is_better=False)
    claim = compare(results, text, pre, post, loss, -1, f"post-norm, with {deepest} layers in each stack")
    has_results = any(results.values(row.name, _PERPLEXITY) for row in results.rows)
    return Finding([table], [_depth_chart(results)] if has_results else [], [claim])


def _depth_chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for norm, style in (("post", "s--C3"), ("pre", "o-C0")):
            points = [
                (d, m.value)
                for d in _DEPTHS
                if (m := results.mean(_depth_row_name(norm, d), _PERPLEXITY)) is not None
            ]
            axis.semilogy([d for d, _ in points], [p for _, p in points], style, label=f"{norm}-norm")
        axis.set(xlabel="layers in each stack", ylabel="development perplexity", xticks=_DEPTHS)
        axis.legend(frameon=False)

    return Chart(
        f"depth-{results.scale.name}", "Development perplexity against depth, pre-norm and post-norm", draw
    )


DEPTH = Experiment("depth", "Depth", depth_rows, find_depth)

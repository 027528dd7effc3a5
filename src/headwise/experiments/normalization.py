"""Three experiments on normalization: the need for learning-rate warm-up, pre-norm against post-norm, and depth."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.config import Config
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
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
_BLEU, _PERPLEXITY = "dev.bleu", "dev.perplexity"


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
            (label, results.cell(name, "dev.perplexity"), results.cell(name, _BLEU))
            for name, label in _LABELS.items()
        ),
        "The rate rises to the peak that the base has, or starts there, and falls linearly to zero.",
    )


def find(results: Results) -> Finding:
    """Compare training with and without warm-up, for post-norm and pre-norm."""
    return Finding(
        [table(results)],
        charts(results),
        [
            compare(
                results, "Post-norm, as in the paper, needs warm-up", "warm-up-post", "warm-up-none-post"
            ),
            compare(results, "Pre-norm gains from warm-up, too", "warm-up-pre", "warm-up-none-pre"),
        ],
    )


def compare(results: Results, text: str, better: str, worse: str) -> Claim:
    """Return the claim that row `better` has a higher development BLEU than `worse`; diverged counts as lower."""
    missing = results.missing(better, worse)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    first, second = results.mean(better, _BLEU), results.mean(worse, _BLEU)
    holds = first is not None and (second is None or first.value > second.value)
    because = (
        f"Dev BLEU {results.cell(better, _BLEU)} against {results.cell(worse, _BLEU)} ({results.scale.name})."
    )
    return Claim(text, decide(holds), because)


def charts(results: Results) -> list[Chart]:
    """Return the chart of development loss against steps, if any row is recorded."""
    records = {row.label: record for row in results.rows if (record := results.first(row.name)) is not None}

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for label, record in records.items():
            points = record.result.get("curve", [])
            axis.plot([p["step"] for p in points], [p["loss"] for p in points], label=label)
        axis.set(xlabel="step", ylabel="development loss (nats a subword)")
        axis.legend(frameon=False, fontsize=8)

    return [Chart(f"warm-up-{results.scale.name}", "Development loss against steps", draw)] if records else []


def find_order(results: Results) -> Finding:
    """Compare pre-norm and post-norm, with and without warm-up."""
    return Finding(
        [table(results)],
        charts(results),
        [
            compare(
                results,
                "Without warm-up, pre-norm is the one that trains",
                "warm-up-none-pre",
                "warm-up-none-post",
            ),
            compare(
                results,
                "With warm-up, post-norm ends at least as well as pre-norm",
                "warm-up-post",
                "warm-up-pre",
            ),
        ],
    )


WARM_UP = Experiment("warm-up", "Warm-up", rows, find)
ORDER = Experiment("norm", "Pre-norm and post-norm", rows, find_order)

BLEU, _PERPLEXITY = "dev.bleu", "dev.perplexity"


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
                *(results.cell(_depth_row_name(norm, depth), _BLEU) for norm in ("post", "pre")),
            )
            for depth in _DEPTHS
        ),
        "On development data.",
    )
    has_results = any(results.values(row.name, _PERPLEXITY) for row in results.rows)
    return Finding([table], [_depth_chart(results)] if has_results else [], [_depth_claim(results)])


def _depth_claim(results: Results) -> Claim:
    text = "Deep stacks train with pre-norm where post-norm fails"
    names = [_depth_row_name(norm, depth) for depth in _DEPTHS for norm in ("post", "pre")]
    missing = results.missing(*names)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    deepest = _DEPTHS[-1]
    post, pre = (results.mean(_depth_row_name(norm, deepest), _PERPLEXITY) for norm in ("post", "pre"))
    holds = pre is not None and (post is None or pre.value < post.value / 2)
    cells = [
        results.cell(_depth_row_name(norm, depth), _PERPLEXITY)
        for depth in (deepest, _DEPTHS[0])
        for norm in ("post", "pre")
    ]
    because = "At 24 layers, dev perplexity is {} with post-norm and {} with pre-norm (at 6: {} and {})."
    return Claim(text, decide(holds), because.format(*cells))


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

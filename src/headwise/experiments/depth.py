"""Depth: 6 to 24 layers in each stack, pre-norm and post-norm."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.scales.scale import Scale

_DEPTHS = (6, 12, 18, 24)
_BLEU, _PERPLEXITY = "dev.bleu", "dev.perplexity"


def _name(norm: str, depth: int) -> str:
    return f"depth-{norm}-{depth}"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each depth and normalization: the scale's base with `Scale.deep`'s overrides and more layers."""
    file, changes = scale.base.file, scale.base.changes
    return [
        TrainingRow(
            _name(norm, depth),
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


def find(results: Results) -> Finding:
    """Compare pre-norm and post-norm at the greatest depth."""
    table = Table(
        f"Depth ({results.scale.about})",
        ("layers in each stack", "post-norm PPL", "pre-norm PPL", "post-norm BLEU", "pre-norm BLEU"),
        tuple(
            (
                str(depth),
                *(results.cell(_name(norm, depth), _PERPLEXITY) for norm in ("post", "pre")),
                *(results.cell(_name(norm, depth), _BLEU) for norm in ("post", "pre")),
            )
            for depth in _DEPTHS
        ),
        "On development data.",
    )
    has_results = any(results.values(row.name, _PERPLEXITY) for row in results.rows)
    return Finding([table], [_chart(results)] if has_results else [], [_claim(results)])


def _claim(results: Results) -> Claim:
    text = "Deep stacks train with pre-norm where post-norm fails"
    names = [_name(norm, depth) for depth in _DEPTHS for norm in ("post", "pre")]
    missing = results.missing(*names)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    deepest = _DEPTHS[-1]
    post, pre = (results.mean(_name(norm, deepest), _PERPLEXITY) for norm in ("post", "pre"))
    holds = pre is not None and (post is None or pre.value < post.value / 2)
    cells = [
        results.cell(_name(norm, depth), _PERPLEXITY)
        for depth in (deepest, _DEPTHS[0])
        for norm in ("post", "pre")
    ]
    because = "At 24 layers, dev perplexity is {} with post-norm and {} with pre-norm (at 6: {} and {})."
    return Claim(text, decide(holds), because.format(*cells))


def _chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for norm, style in (("post", "s--C3"), ("pre", "o-C0")):
            points = [
                (d, m.value) for d in _DEPTHS if (m := results.mean(_name(norm, d), _PERPLEXITY)) is not None
            ]
            axis.semilogy([d for d, _ in points], [p for _, p in points], style, label=f"{norm}-norm")
        axis.set(xlabel="layers in each stack", ylabel="development perplexity", xticks=_DEPTHS)
        axis.legend(frameon=False)

    return Chart(
        f"depth-{results.scale.name}", "Development perplexity against depth, pre-norm and post-norm", draw
    )


EXPERIMENT = Experiment("depth", "Depth", rows, find)

"""`headwise explain`: one translation with its attention, token probabilities and beam tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwise import bounds
from headwise.cli.arguments import Alpha, Beam, Device, TrainedRun
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.interventions import Part
    from headwise.analysis.trace import Trace


def command(
    run: TrainedRun,
    text: Annotated[str, typer.Option(help="The sentence to translate.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Write a .png, .html or .json file instead of printing."),
    ] = None,
    word: Annotated[
        str | None, typer.Option(help="Of the output, or its number from 1: show what it attended to.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords to words.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Print the beam tree, too.")] = False,
    steps: Annotated[
        bool,
        typer.Option("--steps", help="Print how it was written, token by token, and with teacher forcing."),
    ] = False,
    do: Annotated[
        list[str] | None,
        typer.Option(
            help="Intervene: silence:cross.2.3, no-residual:encoder.*, temperature:*.*.*@0.5, checkpoint:0, "
            "prefix:Ein, …; repeatable."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Look at this translation, by forced decoding, and not at the best one."),
    ] = None,
    hypothesis: Annotated[
        int, typer.Option(min=1, max=bounds.BEAM, help="Look at the hypothesis of this rank.")
    ] = 1,
    part: Annotated[
        Literal["encoder", "decoder", "cross"], typer.Option(help="Of the model, in a .png.")
    ] = "cross",
    head: Annotated[
        str | None, typer.Option(help="One head for a .png, as LAYER.HEAD from 1.", show_default="all")
    ] = None,
    boxes: Annotated[
        bool, typer.Option("--boxes", help="List the model's boxes, with their parameters and operations.")
    ] = False,
    box: Annotated[
        str | None,
        typer.Option(help="Print the steps inside a box of the model, such as encoder.feed-forward."),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(min=1, max=bounds.LAYERS, help="Of the box, from 1.", show_default="1"),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(min=1, max=bounds.LENGTH, help="The box's token, from 1.", show_default="1"),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=bounds.COLDEST,
            max=bounds.HOTTEST,
            help="Of --box softmax: divides the logits.",
            show_default="1",
        ),
    ] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    device: Device = "auto",
) -> None:
    """Translate one sentence and show what every head attended to.

    Example: headwise explain runs/de --text "A man rides a horse." --word 3 --words

    Example: headwise explain runs/de --text "A man rides a horse." -o attention.html

    Example: headwise explain runs/de --text "A man rides a horse." --box encoder.feed-forward --layer 2 --position 3
    """
    from headwise.analysis.interventions import parse_interventions
    from headwise.analysis.tracer import Tracer
    from headwise.cli.analysis.boxes import BoxOptions, check_unused, show

    if out is not None and out.suffix not in (".png", ".html", ".json"):
        raise ConfigError(f"{out}: expected a file that ends in .png, .html or .json")
    check_unused(boxes, box, layer, position, temperature)
    overrides = {key: value for key, value in {"beam": beam, "alpha": alpha}.items() if value is not None}
    tracer = Tracer.load(run, device)
    interventions = parse_interventions(do or [])
    trace = tracer.trace(text, interventions, hypothesis=hypothesis - 1, target=target, **overrides)
    if boxes or box is not None:
        show(tracer, text, trace, BoxOptions(box, layer, position or 1, temperature or 1.0), out)
        return
    if out is None:
        from headwise.analysis.difference import difference
        from headwise.analysis.stepwise import step_by_step
        from headwise.analysis.terminal import describe, difference_lines, step_lines, tree_lines

        lines = describe(trace, word=word, words=words)
        if interventions and trace.hypotheses:
            plain = tracer.trace(text, **overrides)
            lines += ["", *difference_lines(difference(tracer, plain, trace))]
        if steps and trace.forced is not None:
            stepwise = step_by_step(tracer, text, trace.forced.target.ids, interventions)
            lines += ["", *step_lines(stepwise)]
        typer.echo("\n".join([*lines, *(["", *tree_lines(trace)] if tree else [])]))
        return
    _write(trace, out, part, words, head)


def _write(trace: Trace, out: Path, part: Part, words: bool, head: str | None) -> None:
    if out.suffix == ".png":
        from headwise.analysis.picture import draw_trace

        draw_trace(trace, out, part=part, words=words, shown=_head(trace, part, head))
    elif out.suffix == ".html":
        from headwise.analysis.page import write_page

        write_page(trace, out)
    else:
        from headwise.files import write_text

        write_text(out, trace.dumps() + "\n")
    for note in trace.notes:
        typer.echo(f"note: {note}", err=True)


def _head(trace: Trace, part: Part, head: str | None) -> tuple[int, int] | None:
    if head is None:
        return None
    layers, heads = trace.grid(part).weights.shape[:2]
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", head)
    layer, number = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= layer <= layers and 1 <= number <= heads):
        raise ConfigError(f"head: expected LAYER.HEAD from 1.1 to {layers}.{heads}, found {head!r}")
    return layer - 1, number - 1

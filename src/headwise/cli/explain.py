"""`headwise explain`: one translation with its attention, token probabilities and beam tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwise import bounds
from headwise.cli.arguments import Alpha, Beam, Device, TrainedRun
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.interventions import Part
    from headwise.analysis.single_stack import StackTracer
    from headwise.analysis.trace import Trace
    from headwise.analysis.tracer import Tracer


def command(
    run: TrainedRun,
    text: Annotated[
        str | None, typer.Option(help="The sentence to translate, to continue, or with <mask> to fill.")
    ] = None,
    image: Annotated[
        int | None,
        typer.Option(
            min=1, max=bounds.COUNT, help="For --box and --boxes of a classifier: a held-out image, from 1."
        ),
    ] = None,
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
        int | None,
        typer.Option(min=1, max=bounds.BEAM, help="Look at the hypothesis of this rank.", show_default="1"),
    ] = None,
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
    recurrence: Annotated[
        bool,
        typer.Option(
            "--recurrence",
            help="Compare recurrent networks with attention: states, gradient against distance, time against length.",
        ),
    ] = False,
    radius: Annotated[
        float | None,
        typer.Option(
            min=bounds.LEAST_RADIUS,
            max=bounds.MOST_RADIUS,
            help="Of --recurrence: spectral radius of a recurrent network without gates.",
            show_default="2",
        ),
    ] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    device: Device = "auto",
) -> None:
    """Show what every head attended to in one sentence that is translated, continued, or filled at its masks.

    Example: headwise explain runs/de --text "A man rides a horse." --word 3 --words

    Example: headwise explain runs/de --text "A man rides a horse." -o attention.html

    Example: headwise explain runs/de --text "A man rides a horse." --box encoder.feed-forward --layer 2 --position 3

    Example: headwise explain runs/digits --image 1 --box encoder.patches --position 7
    """
    from headwise.analysis.interventions import parse_interventions
    from headwise.analysis.single_stack import open_tracer
    from headwise.cli.boxes import BoxOptions, check_json, check_unused, show, show_image

    if out is not None and out.suffix not in (".png", ".html", ".json"):
        raise ConfigError(f"{out}: expected a file that ends in .png, .html or .json")
    check_unused(boxes, box, layer, position, temperature)
    if radius is not None and not recurrence:
        raise ConfigError("--radius: expected --recurrence with it, found none")
    if recurrence and (boxes or box is not None):
        raise ConfigError("--recurrence: expected it without --box and --boxes, found both")
    interventions = parse_interventions(do or [])
    options = BoxOptions(box, layer, position or 1, temperature or 1.0)
    looks_inside = boxes or box is not None
    if looks_inside:
        check_json(out, "boxes are")
    if recurrence:
        check_json(out, "the comparison is")
    if image is not None:
        if text is not None or not looks_inside:
            found = "--text" if text is not None else "neither; headwise patches draws attention"
            raise ConfigError(f"--image: expected it with --box or --boxes and without --text, found {found}")
        show_image(run, image - 1, interventions, options, out)
        return
    if text is None:
        raise ConfigError("expected --text, or --image with --box for a classifier of images, found neither")
    tracer = open_tracer(run, device)
    if recurrence:
        from headwise.cli.recurrence import show as show_recurrence

        show_recurrence(tracer, text, radius, interventions, out)
        return
    chosen = {"beam": beam, "alpha": alpha, "target": target, "hypothesis": hypothesis}
    overrides = _of_translator(tracer, {key: value for key, value in chosen.items() if value is not None})
    trace = tracer.trace(text, interventions, **overrides)
    if looks_inside:
        show(tracer, text, trace, options, out)
    elif out is None:
        _print(tracer, text, trace, word, words=words, steps=steps, tree=tree)
    else:
        _write(trace, out, part, words, head)


def _of_translator(tracer: Tracer | StackTracer, options: dict[str, Any]) -> dict[str, Any]:
    """Check the options of a search, which only a translator has; the rank counts from 0 in the result."""
    from headwise.analysis.single_stack import StackTracer

    if options and isinstance(tracer, StackTracer):
        raise ConfigError(f"--{next(iter(options))}: expected a translation run, found another")
    if "hypothesis" in options:
        options["hypothesis"] -= 1
    return options


def _print(
    tracer: Tracer | StackTracer,
    text: str,
    trace: Trace,
    word: str | None,
    *,
    words: bool,
    steps: bool,
    tree: bool,
) -> None:
    """Print a trace, and what its interventions changed."""
    from headwise.analysis.difference import difference
    from headwise.analysis.single_stack import StackTracer
    from headwise.analysis.stepwise import step_by_step
    from headwise.analysis.terminal import describe, difference_lines, step_lines, tree_lines

    lines = describe(trace, word=word, words=words)
    if trace.interventions and trace.hypotheses:
        plain = tracer.trace(text, beam=trace.beam, alpha=trace.alpha)
        lines += ["", *difference_lines(difference(tracer, plain, trace, text=text))]
    if (steps or tree) and isinstance(tracer, StackTracer):
        raise ConfigError(f"--{'steps' if steps else 'tree'}: expected a translation run, found another")
    if steps and trace.forced is not None and not isinstance(tracer, StackTracer):
        stepwise = step_by_step(tracer, text, trace.forced.target.ids, trace.interventions)
        lines += ["", *step_lines(stepwise)]
    typer.echo("\n".join([*lines, *(["", *tree_lines(trace)] if tree else [])]))


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

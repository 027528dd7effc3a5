"""`headwise explain`: one translation with its attention, token probabilities and beam tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwise import bounds
from headwise.cli.arguments import Alpha, Beam, Device, SearchSettings, TrainedRun, search_settings
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.interventions import Part
    from headwise.analysis.trace import Trace
    from headwise.analysis.tracer import Tracer


def command(
    run: TrainedRun,
    text: Annotated[str | None, typer.Option(help="To translate, to continue, or with <mask>.")] = None,
    image: Annotated[Path | None, typer.Option(help="A PNG file, for a model of images.")] = None,
    row: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=bounds.COUNT, help="A held-out image instead, from 1."),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A .png, .html or .json file.")] = None,
    word: Annotated[str | None, typer.Option(help="Of the output, or its number: what it looked at.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords to words.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Print the beam tree, too.")] = False,
    steps: Annotated[bool, typer.Option("--steps", help="Print how it was written, token by token.")] = False,
    do: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE", help="Intervene: silence:cross.2.3, prefix:Ein, no-residual:encoder.*, …"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Look at this translation, not at the best.")] = None,
    hypothesis: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=bounds.BEAM, help="Or at that of this rank.")
    ] = None,
    part: Annotated[
        Literal["encoder", "decoder", "cross"],
        typer.Option(metavar="PART", help="In a .png: encoder, decoder, cross."),
    ] = "cross",
    head: Annotated[str | None, typer.Option(help="In a .png: LAYER.HEAD, from 1, alone.")] = None,
    boxes: Annotated[bool, typer.Option("--boxes", help="List the model's boxes.")] = False,
    box: Annotated[str | None, typer.Option(help="Print the steps inside a box.")] = None,
    layer: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=bounds.LAYERS, help="Of the box, from 1.")
    ] = None,
    position: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=bounds.LENGTH, help="The box's token, from 1.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", min=bounds.COLDEST, max=bounds.HOTTEST, help="Of --box softmax."),
    ] = None,
    recurrence: Annotated[
        bool, typer.Option("--recurrence", help="Compare recurrent networks with attention.")
    ] = False,
    radius: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            min=bounds.LEAST_RADIUS,
            max=bounds.MOST_RADIUS,
            help="Of --recurrence: the spectral radius.",
        ),
    ] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    settings: SearchSettings = None,
    device: Device = "auto",
) -> None:
    """Show what every head attended to in a sentence (translated, continued, or filled at its masks) or an image.

    Example: headwise explain runs/de --text "A man rides a horse." --word 3

    Example: headwise explain runs/de --text "A man." --box encoder.feed-forward

    Example: headwise explain runs/digits --row 1 -o patches.png
    """
    from headwise.analysis.interventions import parse_interventions
    from headwise.analysis.language_models import open_tracer
    from headwise.cli.boxes import BoxOptions, check_json, check_unused, show, show_image
    from headwise.cli.patches import Picture, draw

    if out is not None and out.suffix not in (".png", ".html", ".json"):
        raise ConfigError(f"{out}: expected a file that ends in .png, .html or .json")
    check_unused(boxes, box, layer, position, temperature)
    if radius is not None and not recurrence:
        raise ConfigError("--radius: expected --recurrence with it, found none")
    if recurrence and (boxes or box is not None):
        raise ConfigError("--recurrence: expected it without --box and --boxes, found both")
    search = search_settings(settings, beam=beam, alpha=alpha)
    interventions = parse_interventions(do or [])
    options = BoxOptions(box, layer, position or 1, temperature or 1.0)
    looks_inside = boxes or box is not None
    if looks_inside:
        check_json(out, "boxes are")
    if recurrence:
        check_json(out, "the comparison is")
    if image is not None or row is not None:
        picture = Picture(image, row)
        _of_text(
            word=word,
            words=words,
            tree=tree,
            steps=steps,
            target=target,
            hypothesis=hypothesis,
            head=head,
            recurrence=recurrence,
            beam=beam,
            alpha=alpha,
            s=settings,
        )
        if looks_inside:
            _of_text(text=text)
            show_image(run, picture, interventions, options, out)
        else:
            _of_text(do=do)
            draw(run, picture, text, out, device)
        return
    if text is None:
        raise ConfigError("explain: expected --text, or --image or --row for a model of images, found none")
    tracer = open_tracer(run, device)
    if recurrence:
        from headwise.cli.recurrence import show as show_recurrence

        show_recurrence(tracer, text, radius, interventions, out)
        return
    chosen = {"target": target, "hypothesis": hypothesis, **search}
    overrides = _of_translator(tracer, {key: value for key, value in chosen.items() if value is not None})
    trace = tracer.trace(text, interventions, **overrides)
    if looks_inside:
        show(tracer, text, trace, options, out)
    elif out is None:
        _print(tracer, text, trace, search, word, words=words, steps=steps, tree=tree)
    else:
        _write(tracer, run, text, trace, search, out, part=part, words=words, head=head)


def _of_text(**options: Any) -> None:
    """Raise `ConfigError` for an option that has no effect on an image."""
    for name, value in options.items():
        if value is not None and value is not False:
            option = "-s" if name == "s" else f"--{name}"
            raise ConfigError(f"{option}: expected it for a text, found it beside an image")


def _of_translator(tracer: Tracer, options: dict[str, Any]) -> dict[str, Any]:
    """Check the options of a search, which only a translator has; the rank counts from 0 in the result."""
    from headwise.analysis.translation_tracer import TranslationTracer

    if options and not isinstance(tracer, TranslationTracer):
        name = next(iter(options))
        option = f"--{name}" if name in ("target", "hypothesis", "beam", "alpha") else f"-s {name}"
        raise ConfigError(f"{option}: expected a translation run, found another")
    if "hypothesis" in options:
        options["hypothesis"] -= 1
    return options


def _print(
    tracer: Tracer,
    text: str,
    trace: Trace,
    search: dict[str, Any],
    word: str | None,
    *,
    words: bool,
    steps: bool,
    tree: bool,
) -> None:
    """Print a trace, and what its interventions changed."""
    from headwise.analysis.difference import difference
    from headwise.analysis.stepwise import step_by_step
    from headwise.analysis.terminal import describe, difference_lines, step_lines, tree_lines
    from headwise.analysis.translation_tracer import TranslationTracer

    lines = describe(trace, word=word, words=words)
    if trace.interventions and trace.hypotheses:
        plain = tracer.trace(text, **search)
        lines += ["", *difference_lines(difference(tracer, plain, trace, text=text))]
    if (steps or tree) and not isinstance(tracer, TranslationTracer):
        raise ConfigError(f"--{'steps' if steps else 'tree'}: expected a translation run, found another")
    if steps and trace.forced is not None and isinstance(tracer, TranslationTracer):
        stepwise = step_by_step(tracer, text, trace.forced.target.ids, trace.interventions)
        lines += ["", *step_lines(stepwise)]
    typer.echo("\n".join([*lines, *(["", *tree_lines(trace)] if tree else [])]))


def _write(
    tracer: Tracer,
    run: Path,
    text: str,
    trace: Trace,
    search: dict[str, Any],
    out: Path,
    *,
    part: Part,
    words: bool,
    head: str | None,
) -> None:
    """Write a trace as a picture, a page or JSON."""
    if out.suffix == ".png":
        from headwise.analysis.picture import draw_trace

        draw_trace(trace, out, part=part, words=words, shown=_head(trace, part, head))
    elif out.suffix == ".html":
        from headwise.page.recorded_page import write_recording

        plain = tracer.trace(text, **search) if trace.interventions else trace
        write_recording(tracer, run, text, trace, plain, out)
    else:
        from headwise.files import write_text

        write_text(out, trace.dumps() + "\n")
    for note in trace.notes:
        typer.echo(f"note: {note}", err=True)


def _head(trace: Trace, part: Part, head: str | None) -> tuple[int, int] | None:
    if head is None:
        return None
    layers, heads = trace.attention_map(part).weights.shape[:2]
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", head)
    layer, number = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= layer <= layers and 1 <= number <= heads):
        raise ConfigError(f"head: expected LAYER.HEAD from 1.1 to {layers}.{heads}, found {head!r}")
    return layer - 1, number - 1

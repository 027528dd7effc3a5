"""`headwise explain`: one translation with its attention, token probabilities and beam tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Option

from headwise import bounds
from headwise.cli.arguments import (
    Alpha,
    Beam,
    Device,
    Imports,
    SearchSettings,
    TrainedRun,
    count,
    refuse_beside,
    refuse_without,
    search_settings,
)
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.interventions import Intervention
    from headwise.analysis.tracer import Tracer
    from headwise.api.explaining import Explanation


AttentionPart = Annotated[
    Literal["encoder", "decoder", "cross"] | None,
    Option(metavar="PART", help="In a .png: encoder, decoder, cross.", show_default="cross, or the only one"),
]
Recurrence = Annotated[bool, Option("--recurrence", help="Compare recurrent networks with attention.")]


def command(
    run: TrainedRun,
    text: Annotated[str | None, Option(help="To translate, to continue, or with <mask>.")] = None,
    image: Annotated[Path | None, Option(help="A PNG file, for a model of images.")] = None,
    row: Annotated[int | None, count(help="A held-out image instead, from 1.")] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="A .png, .html or .json file.")] = None,
    word: Annotated[str | None, Option(help="Of the output, or its number: what it looked at.")] = None,
    words: Annotated[bool, Option("--words", help="Join subwords to words.")] = False,
    tree: Annotated[bool, Option("--tree", help="Print the beam tree, too.")] = False,
    steps: Annotated[bool, Option("--steps", help="Print how it was written, token by token.")] = False,
    do: Annotated[
        list[str] | None,
        Option(metavar="CHANGE", help="Intervene: silence:cross.2.3, prefix:Ein, no-residual:encoder.*, …"),
    ] = None,
    target: Annotated[str | None, Option(help="Look at this translation, not at the best.")] = None,
    hypothesis: Annotated[int | None, count(most=bounds.BEAM, help="Or at that of this rank.")] = None,
    part: AttentionPart = None,
    head: Annotated[str | None, Option(help="In a .png: LAYER.HEAD, from 1, alone.")] = None,
    boxes: Annotated[bool, Option("--boxes", help="List the model's boxes.")] = False,
    box: Annotated[str | None, Option(help="Print the steps inside a box.")] = None,
    layer: Annotated[int | None, count(most=bounds.LAYERS, help="Of the box, from 1.")] = None,
    position: Annotated[int | None, count(most=bounds.LENGTH, help="The box's token, from 1.")] = None,
    temperature: Annotated[
        float | None, Option(metavar="T", min=bounds.COLDEST, max=bounds.HOTTEST, help="Of --box softmax.")
    ] = None,
    recurrence: Recurrence = False,
    radius: Annotated[
        float | None,
        Option(
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
    imports: Imports = None,
) -> None:
    """Show what every head attended to in a sentence (translated, continued, or filled at its masks) or an image.

    Example: headwise explain runs/de --text "A man rides a horse." --word 3

    Example: headwise explain runs/de --text "A man." --box encoder.feed-forward

    Example: headwise explain runs/digits --row 1 -o patches.png
    """
    from headwise.analysis.interventions import parse_interventions
    from headwise.analysis.language_models import open_tracer
    from headwise.api.explaining import check_suffix, explain
    from headwise.api.run import Run
    from headwise.cli.boxes import BoxOptions, check_unused, show, show_image
    from headwise.cli.patches import Picture, draw

    if out is not None:
        check_suffix(out)
    check_unused(boxes, box, layer, position, temperature)
    looks_inside = boxes or box is not None
    _check_inside(recurrence, radius, out, looks_inside)
    search = search_settings(settings, beam=beam, alpha=alpha)
    interventions = parse_interventions(do or [])
    options = BoxOptions(box, layer, position or 1, temperature or 1.0)
    printed = {"--word": word, "--tree": tree, "--steps": steps}
    searched = {
        "--target": target,
        "--hypothesis": hypothesis,
        "--beam": beam,
        "--alpha": alpha,
        "-s": settings,
    }
    pictured = {"--part": part, "--head": head}
    if image is not None or row is not None:
        picture = Picture(image, row)
        of_texts = {**printed, "--words": words, **searched, **pictured, "--recurrence": recurrence}
        refuse_beside("an image", of_texts)
        if looks_inside:
            refuse_beside("an image's boxes", {"--text": text})
            show_image(run, picture, interventions, options, out, device)
        else:
            refuse_beside("a picture of attention over an image", {"--do": do})
            draw(run, picture, text, out, device)
        return
    draws = out is not None and out.suffix == ".png"
    if not draws:
        refuse_without("-o PICTURE.png", pictured)
    if looks_inside:
        refuse_beside("--boxes" if boxes else "--box", {**printed, "--words": words})
    if recurrence:
        refuse_beside("--recurrence", {**printed, "--words": words, **searched})
    if out is not None:
        refuse_beside(f"-o {out}", {**printed, "--words": words and not draws})
    if text is None:
        raise ConfigError("explain: expected --text, or --image or --row for a model of images, found none")
    if recurrence:
        _compare(open_tracer(run, device), text, radius, interventions, out)
        return
    asked = {"target": target, "hypothesis": None if hypothesis is None else hypothesis - 1, **search}
    asked = {key: value for key, value in asked.items() if value is not None}
    trained = Run(run, device=device)
    explanation = explain(trained.tracer, trained.config, text, do or [], trained.path, **asked)
    if looks_inside:
        show(explanation.tracer, text, explanation.trace, options, out)
    elif out is None:
        _print(explanation, word, words=words, steps=steps, tree=tree)
    else:
        explanation.save(out, part=part, words=words, head=head)
        for note in explanation.trace.notes:
            typer.echo(f"note: {note}", err=True)


def _check_inside(recurrence: bool, radius: float | None, out: Path | None, looks_inside: bool) -> None:
    """Raise `ConfigError` for options that don't go with --recurrence or with boxes."""
    from headwise.cli.boxes import check_json

    if not recurrence:
        refuse_without("--recurrence", {"--radius": radius})
    if recurrence and looks_inside:
        raise ConfigError("--recurrence: expected it without --box and --boxes, found both")
    if looks_inside:
        check_json(out, "boxes are")
    if recurrence:
        check_json(out, "the comparison is")


def _compare(
    tracer: Tracer, text: str, radius: float | None, interventions: Sequence[Intervention], out: Path | None
) -> None:
    """Print recurrent networks beside attention, with their times, or write them to a .json file."""
    from headwise.analysis.recurrence.comparing import STRETCHING, compare, comparison_lines
    from headwise.analysis.recurrence.timing import measure_times, time_lines
    from headwise.cli.boxes import write_json

    found = compare(tracer, text, STRETCHING if radius is None else radius, interventions)
    times = measure_times(found.width)
    if out is not None:
        write_json(out, {**vars(found), "times": times})
        return
    typer.echo("\n".join([*comparison_lines(found), "", *time_lines(times)]))


def _print(explanation: Explanation, word: str | None, *, words: bool, steps: bool, tree: bool) -> None:
    """Print a trace, and what its interventions changed."""
    from headwise.analysis.difference import difference
    from headwise.analysis.stepwise import step_by_step
    from headwise.analysis.terminal import describe, difference_lines, step_lines, tree_lines
    from headwise.analysis.translation_tracer import TranslationTracer

    tracer, trace = explanation.tracer, explanation.trace
    lines = describe(trace, word=word, words=words)
    if trace.interventions and trace.hypotheses:
        lines += ["", *difference_lines(difference(tracer, explanation.plain, trace))]
    if (steps or tree) and not isinstance(tracer, TranslationTracer):
        raise ConfigError(f"--{'steps' if steps else 'tree'}: expected a translation run, found another")
    if steps and trace.forced is not None and isinstance(tracer, TranslationTracer):
        stepwise = step_by_step(tracer, trace.source, trace.forced.target.ids, trace.interventions)
        lines += ["", *step_lines(stepwise)]
    typer.echo("\n".join([*lines, *(["", *tree_lines(trace)] if tree else [])]))

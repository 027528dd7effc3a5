"""`headwise explain --box` and `--boxes`: the computation inside one box of the model, and the list of its boxes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwise.cli.arguments import refuse_without
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.interventions import Intervention
    from headwise.analysis.recording import ForwardPass
    from headwise.analysis.trace import Trace
    from headwise.analysis.tracer import Tracer
    from headwise.cli.patches import Picture


@dataclass(frozen=True)
class BoxOptions:
    """What is asked for: the box `name`, or all boxes if it is None; layer and position count from 1."""

    name: str | None
    layer: int | None
    position: int
    temperature: float


def check_unused(
    boxes: bool, name: str | None, layer: int | None, position: int | None, temperature: float | None
) -> None:
    """Raise `ConfigError` for options that would have no effect."""
    if boxes and name is not None:
        raise ConfigError("--boxes lists all boxes, expected it without --box, found both")
    if name is None:
        refuse_without("--box NAME", {"--layer": layer, "--position": position, "--temperature": temperature})
    if temperature is not None and name != "softmax":
        raise ConfigError(f"--temperature: expected it with --box softmax, found --box {name}")


def show(tracer: Tracer, text: str, trace: Trace, options: BoxOptions, out: Path | None) -> None:
    """Print one box or all of a traced text, or write it to a .json file."""
    if trace.forced is None:
        raise ConfigError("expected a text to look into, found an empty one")
    recorded = tracer.record(trace.source, trace.forced.target.ids, trace.interventions)
    heading = [f"note: {note}" for note in trace.notes]
    heading += [f"source  {text.strip()}", f"output  {trace.forced.target.text}", ""]
    _write(recorded, options, out, heading)


def show_image(
    run: Path,
    picture: Picture,
    interventions: Sequence[Intervention],
    options: BoxOptions,
    out: Path | None,
    device: str,
) -> None:
    """Print one box or all of an image of a run of task image_classification, or write it."""
    from headwise.analysis.viewer import ClassifierViewer
    from headwise.config import Config

    viewer = ClassifierViewer(run, Config.of_run(run, "image_classification"), device)
    pixels, truth, title = picture.read(viewer)
    recorded = viewer.record(pixels, interventions)
    heading = [f"image   {title}" + (f": {truth}" if truth is not None else "")]
    heading += [f"output  {recorded.chosen.text}", ""]
    _write(recorded, options, out, heading)


def _write(recorded: ForwardPass, options: BoxOptions, out: Path | None, heading: list[str]) -> None:
    """Print lines under a heading, or write a .json file."""
    content, lines = _found(recorded, options)
    if out is None:
        typer.echo("\n".join([*heading, *lines]))
    else:
        write_json(out, content)


def check_json(out: Path | None, what: str) -> None:
    """Raise `ConfigError` for a file that isn't JSON; `what` is what is written, with its verb."""
    if out is not None and out.suffix != ".json":
        raise ConfigError(f"{out}: expected a file that ends in .json, for {what} printed or written as JSON")


def write_json(out: Path, content: Any) -> None:
    """Write dataclasses as JSON, their arrays as lists with null for infinite entries (scores of masked keys)."""
    from headwise.analysis.json_arrays import as_json
    from headwise.files import write_text

    write_text(out, json.dumps(as_json(content), ensure_ascii=False, allow_nan=False) + "\n")


def _found(recorded: ForwardPass, options: BoxOptions) -> tuple[Any, list[str]]:
    from headwise.analysis.boxes.architecture import architecture, architecture_lines, box_of
    from headwise.analysis.boxes.steps import box_lines

    if options.name is None:
        found = architecture(recorded)
        return found, architecture_lines(found)
    layer = None if options.layer is None else options.layer - 1
    box = box_of(recorded, options.name, layer, options.position - 1, temperature=options.temperature)
    return box, box_lines(box)

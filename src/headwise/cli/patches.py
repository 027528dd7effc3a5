"""`headwise patches`: a vision model's attention, drawn over the image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import Device, named
from headwise.config import Config
from headwise.errors import ConfigError


def command(
    run: Annotated[
        Path,
        typer.Argument(
            callback=named, help="A trained run directory of task image_classification or image_text."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The .png file to write.")],
    row: Annotated[
        int | None, typer.Option(min=1, max=bounds.COUNT, help="Number of a held-out image, from 1.")
    ] = None,
    image: Annotated[
        Path | None, typer.Option(help="A PNG file of the size that the model was trained on.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="The caption (image_text).", show_default="the held-out image's own"),
    ] = None,
    device: Device = "auto",
) -> None:
    """Draw each head's attention and the attention rollout; for captions, each patch's contribution to each word.

    Example: headwise patches runs/digits --row 1 -o patches.png

    Example: headwise patches runs/digits-clip --row 3 --text "a thin bright seven at the top left" -o words.png
    """
    if out.suffix != ".png":
        raise ConfigError(f"{out}: expected a file that ends in .png")
    if (row is None) == (image is None):
        raise ConfigError(
            f"patches: expected either --row or --image, found {'neither' if row is None else 'both'}"
        )
    from headwise.analysis.patches import ClassifiedImage, draw_attention, draw_words
    from headwise.analysis.viewer import TASKS, open_viewer
    from headwise.images.sets import read_image

    config = Config.of_run(run, *TASKS)
    if config.task == "image_classification" and text is not None:
        raise ConfigError(f"--text: expected none, as {run} is a run of task {config.task}, found {text!r}")
    if config.task == "image_text" and image is not None and text is None:
        raise ConfigError("patches: expected --text beside --image, found none")
    viewer = open_viewer(run, config, device)
    if image is not None:
        pixels, truth, title = read_image(image, viewer.shape), None, str(image)
    else:
        example = viewer.held_out(_index(row, len(viewer)))
        pixels, truth, title = example.pixels, example.truth, f"held-out image {row} ({example.truth})"
    if config.task == "image_classification":
        view = viewer.view(pixels, "")
        assert isinstance(view.seen, ClassifiedImage)
        draw_attention(view.seen, pixels, viewer.classes, out, title=title)
        best = int(view.seen.probabilities.argmax())
        gold = "" if truth is None else f" (it is {truth})"
        summary = f"{viewer.classes[best]}, probability {view.seen.probabilities[best]:.3f}{gold}"
    else:
        caption = text or truth or ""
        view = viewer.view(pixels, caption)
        assert view.shares is not None
        draw_words(view.shares, view.words, pixels[0], out, title=caption)
        summary = f"similarity {view.shares.sum():+.3f} of the picture and {caption!r}"
    typer.echo(f"{out}: {summary}")


def _index(row: int | None, count: int) -> int:
    """Return the index of a held-out image from its number; raises `ConfigError` if it is out of range."""
    assert row is not None
    if row > count > 0:  # if the images no longer exist, `held_out` raises its own error
        raise ConfigError(f"--row: expected a number from 1 to {count:,} of the held-out images, found {row}")
    return row - 1

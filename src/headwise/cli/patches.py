"""`headwise explain --image` and `--row`: a vision model's attention, drawn over the image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.files import check_output

if TYPE_CHECKING:
    from headwise.analysis.viewer import Viewer


@dataclass(frozen=True)
class Picture:
    """The image that is looked at: a PNG file, or a held-out image, by its number from 1."""

    file: Path | None
    row: int | None

    def __post_init__(self) -> None:
        if self.file is not None and self.row is not None:
            raise ConfigError("--image: expected either a file or --row N, found both")

    def read(self, viewer: Viewer) -> tuple[np.ndarray, str | None, str]:
        """Return the pixels, the right answer if it is known, and a title.

        Raises `ConfigError` for a number that is out of range, and `DataError` for a file of another size.
        """
        if self.file is not None:
            from headwise.images.sets import read_image

            return read_image(self.file, viewer.shape), None, str(self.file)
        assert self.row is not None
        if self.row > len(viewer) > 0:  # if the images no longer exist, `held_out` raises its own error
            raise ConfigError(
                f"--row: expected a number from 1 to {len(viewer):,} of the held-out images, found {self.row}"
            )
        example = viewer.held_out(self.row - 1)
        return example.pixels, example.truth, f"held-out image {self.row}"


def draw(run: Path, picture: Picture, text: str | None, out: Path | None, device: str) -> None:
    """Draw each head's attention and the attention rollout; for captions, each patch's contribution to each word."""
    if out is None or out.suffix != ".png":
        raise ConfigError(f"-o: expected a file that ends in .png for attention over an image, found {out or 'none'}")
    check_output(out, picture.file)
    from headwise.analysis.patches import ClassifiedImage, draw_attention, draw_words
    from headwise.analysis.viewer import TASKS, open_viewer

    config = Config.of_run(run, *TASKS)
    if config.task == "image_classification" and text is not None:
        raise ConfigError(f"--text: expected none, as {run} is a run of task {config.task}, found {text!r}")
    if config.task == "image_text" and picture.file is not None and text is None:
        raise ConfigError("--text: expected the caption beside --image, found none")
    viewer = open_viewer(run, config, device)
    pixels, truth, title = picture.read(viewer)
    if truth is not None:
        title += f" ({truth})"
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

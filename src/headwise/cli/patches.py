"""`headwise patches`: what a model of images looked at, drawn over the image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.config import Config
from headwise.errors import ConfigError


def command(
    run: Annotated[
        Path, typer.Argument(help="A trained run directory of task image_classification or image_text.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The .png file to write.")],
    row: Annotated[int | None, typer.Option(min=1, help="Look at this held-out image.")] = None,
    image: Annotated[
        Path | None, typer.Option(help="Look at a PNG of the size that the model was trained on.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="The caption to look with (image_text).", show_default="the held-out picture's own"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Draw where each head looked and the attention through all layers; for captions, what each word stands for.

    Example: headwise patches runs/digits --row 1 -o patches.png

    Example: headwise patches runs/digits-clip --row 3 --text "a thin bright seven at the top left" -o words.png
    """
    if out.suffix != ".png":
        raise ConfigError(f"{out}: expected a file that ends in .png")
    if (row is None) == (image is None):
        raise ConfigError(
            f"patches: expected either --row or --image, found {'neither' if row is None else 'both'}"
        )
    config = Config.of_run(run, "image_classification", "image_text")
    if config.task == "image_text":
        lines = _words(run, config, row, image, text, device, out)
    elif text is not None:
        raise ConfigError(f"--text: expected none, as {run} is a run of task {config.task}, found {text!r}")
    else:
        lines = _attention(run, config, row, image, device, out)
    typer.echo("\n".join(lines))


def _attention(
    run: Path, config: Config, row: int | None, image: Path | None, device: str, out: Path
) -> list[str]:
    import numpy as np
    import torch

    from headwise.analysis.patches import draw_looked, look
    from headwise.images.prepared import ImageFormat, PreparedImages
    from headwise.images.sets import read_image
    from headwise.tasks.image_classification import load_classifier

    model, form = load_classifier(run, config, device=device), ImageFormat.load(run)
    gold = ""
    if image is not None:
        pixels, title = read_image(image, form.shape), str(image)
    else:
        test = PreparedImages.open(run / "prepared").test
        place = _place(row, len(test), "held-out images")
        pixels = test.images[place].astype(np.float32) / form.full
        gold = form.classes[int(test.labels[place])]
        title = f"held-out image {row} ({gold})"
    normalized = torch.from_numpy(form.standardized(pixels)).to(next(model.parameters()).device)
    looked = look(model, normalized)
    draw_looked(looked, pixels, form.classes, out, title=title)
    best = int(looked.probabilities.argmax())
    right = f" (it is {gold})" if gold else ""
    return [f"{out}: {form.classes[best]}, probability {looked.probabilities[best]:.3f}{right}"]


def _words(
    run: Path, config: Config, row: int | None, image: Path | None, text: str | None, device: str, out: Path
) -> list[str]:
    import torch

    from headwise.analysis.patches import draw_words, word_maps
    from headwise.images.prepared import ImageFormat, PreparedImages
    from headwise.images.sets import read_image
    from headwise.tasks.image_text import TEST_SEED, load_image_text, make_gallery
    from headwise.text.captions import CaptionWords

    words, canvas = CaptionWords(), config.image_text.canvas
    if image is not None:
        if text is None:
            raise ConfigError("patches: expected --text beside --image, found none")
        picture, caption = read_image(image, (1, canvas, canvas))[0], text
    else:
        test, form = PreparedImages.open(run / "prepared").test, ImageFormat.load(run)
        gallery = make_gallery(test, form, config, TEST_SEED, held_out=None)
        shown = gallery[_place(row, len(gallery), "held-out pictures")]
        picture, caption = shown.picture, text or shown.facts.caption(0)
    if unknown := words.unknown(caption):
        raise ConfigError(f"--text: expected words of the captions, found {unknown[0]!r}")
    ids = words.encode(caption)
    maps = word_maps(
        load_image_text(run, config, device=device), torch.from_numpy(picture)[None] * 2 - 1, ids
    )
    draw_words(maps, [words.name(number) for number in ids], picture, out, title=caption)
    return [f"{out}: similarity {maps.sum():+.3f} of the picture and {caption!r}"]


def _place(row: int | None, count: int, what: str) -> int:
    assert row is not None
    if row > count:
        raise ConfigError(f"--row: expected a number from 1 to {count:,} of the {what}, found {row}")
    return row - 1

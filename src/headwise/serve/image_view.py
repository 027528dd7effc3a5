"""What a model of images makes of one: its attention over patches, and classes or the words of a caption."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from headwise.analysis.patches import Maps
from headwise.analysis.viewer import Viewer
from headwise.errors import ConfigError
from headwise.serve.json_arrays import packed
from headwise.serve.requests import Arrays, PatchesRequest


def patches_json(viewer: Viewer, asked: PatchesRequest) -> dict[str, Any]:
    """Look at a held-out image, or at the pixels that came with the request.

    Raises `ConfigError` for an image that there is none of, and for a caption that the model can't read.
    """
    if asked.pixels is None:
        pixels, truth = _held_out(viewer, asked.image)
    else:
        pixels, truth = _decoded(asked.pixels, viewer.shape), None
    caption = "" if viewer.classes else (asked.caption.strip() or truth or "")
    view = viewer.view(pixels, caption)

    def array(values: Maps) -> Any:
        return _array(values, asked.arrays)

    return {
        "image": asked.image if asked.pixels is None else None,
        "truth": truth,
        "pixels": array(pixels),
        "grid": view.seen.grid,
        "class_token": view.seen.class_token,
        "attention": array(view.seen.attention),
        "rollout": array(view.seen.through),
        "probabilities": None if view.probabilities is None else view.probabilities.tolist(),
        "caption": caption,
        "words": view.words,
        "shares": None if view.shares is None else array(view.shares),
    }


def _held_out(viewer: Viewer, row: int) -> tuple[Maps, str]:
    if row >= max(len(viewer), 1):  # where there are none any more, whoever opens them says so
        raise ConfigError(f"image: expected a number below {len(viewer)}, found {row}")
    held = viewer.held_out(row)
    return held.pixels, held.truth


def _decoded(pixels: str, shape: tuple[int, int, int]) -> Maps:
    """Read a byte a pixel, from 0 to 255: (channels, height, width)."""
    try:
        values = np.frombuffer(base64.b64decode(pixels, validate=True), np.uint8)
    except binascii.Error:
        raise ConfigError("pixels: expected base64, found something else") from None
    if len(values) != np.prod(shape):
        raise ConfigError(
            f"pixels: expected {np.prod(shape)} bytes (channels, height, width: {shape}), found {len(values)}"
        )
    return (values.reshape(shape) / 255).astype(np.float32)


def _array(values: Maps, arrays: Arrays) -> Any:
    return packed(values) if arrays == "packed" else values.astype(np.float64).round(6).tolist()

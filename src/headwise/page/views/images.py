"""The view of a model of images: its attention over patches, with class probabilities or caption words."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from headwise.analysis.json_arrays import as_json
from headwise.analysis.patches import Maps
from headwise.analysis.recording import ForwardPass
from headwise.analysis.viewer import TASKS, ClassifierViewer, Viewer, open_viewer
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.models.counting import parameter_count
from headwise.nn.multihead import MultiHeadAttention
from headwise.page.requests import BoxesRequest, PatchesRequest
from headwise.page.views.view import View


class ImagesView(View[Viewer]):
    """View of a classifier of images, or of a model of images and their captions."""

    tasks = TASKS
    expected = " or ".join(TASKS)

    @classmethod
    def load(cls, run: Path, config: Config, device: str, threads: int) -> ImagesView:  # noqa: D102
        return cls(open_viewer(run, config, device), config)

    def can(self) -> dict[str, bool]:  # noqa: D102
        return {"vision": True, "boxes": isinstance(self.model, ClassifierViewer)}

    def describe(self) -> dict[str, Any]:
        """Return the parts of the model, its image shape and its number of held-out images."""
        viewer = self.model
        attentions = [module for module in viewer.vision.modules() if isinstance(module, MultiHeadAttention)]
        parts = {"encoder": {"layers": len(attentions), "heads": attentions[0].heads}} if attentions else {}
        return {
            "parts": parts,
            "parameters": parameter_count(viewer.model),
            "images": len(viewer),
            "shape": viewer.shape,
            "classes": viewer.classes,
        }

    def record(self, request: BoxesRequest) -> ForwardPass:  # noqa: D102
        viewer = self.model
        if not isinstance(viewer, ClassifierViewer):
            raise ConfigError(
                f"{viewer.run.resolve().name}: expected a run with boxes, found one of task {self.config.task}"
            )
        pixels, _ = pixels_of(viewer, request.image, request.pixels)
        return viewer.record(pixels, request.changes())


def patches_json(viewer: Viewer, request: PatchesRequest) -> dict[str, Any]:
    """Run the model on a held-out image or on the request's pixels and return what it computes.

    Raises `ConfigError` for an image number out of range, and for a caption that the model can't read.
    """
    pixels, truth = pixels_of(viewer, request.image, request.pixels)
    caption = "" if viewer.classes else (request.caption.strip() or truth or "")
    view = viewer.view(pixels, caption, request.changes())
    content = {
        "image": request.image if request.pixels is None else None,
        "truth": truth,
        "pixels": pixels,
        "grid": view.seen.grid,
        "class_token": view.seen.class_token,
        "attention": view.seen.attention,
        "rollout": view.seen.through,
        "probabilities": None if view.probabilities is None else view.probabilities.tolist(),
        "caption": caption,
        "words": view.words,
        "shares": view.shares,
    }
    return as_json(content, request.array())


def pixels_of(viewer: Viewer, image: int, pixels: str | None) -> tuple[Maps, str | None]:
    """Return a held-out image with its gold label, or the one that `pixels` encodes; raises `ConfigError`."""
    if pixels is None:
        return _held_out(viewer, image)
    return _decoded(pixels, viewer.shape), None


def _held_out(viewer: Viewer, row: int) -> tuple[Maps, str]:
    if row >= max(len(viewer), 1):  # if the images no longer exist, `held_out` raises its own error
        raise ConfigError(f"image: expected a number below {len(viewer)}, found {row}")
    example = viewer.held_out(row)
    return example.pixels, example.truth


def _decoded(pixels: str, shape: tuple[int, int, int]) -> Maps:
    """Decode base64 of one byte per pixel and channel into values from 0 to 1, shape (channels, height, width)."""
    try:
        values = np.frombuffer(base64.b64decode(pixels, validate=True), np.uint8)
    except ValueError:  # binascii.Error is one
        raise ConfigError("pixels: expected base64, found something else") from None
    if len(values) != np.prod(shape):
        raise ConfigError(
            f"pixels: expected {np.prod(shape)} bytes (channels, height, width: {shape}), found {len(values)}"
        )
    return (values.reshape(shape) / 255).astype(np.float32)

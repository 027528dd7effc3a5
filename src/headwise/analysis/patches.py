"""Attention of vision models: per-head maps over patches, attention rollout, and word maps of captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from headwise.analysis.picture import save
from headwise.errors import ConfigError
from headwise.models.contrastive import ImageText
from headwise.models.vision import ImageClassifier, VisionTransformer
from headwise.nn.recording import Recording, recording

Maps = NDArray[np.float32]


@dataclass(frozen=True)
class ImageAttention:
    """Attention of a vision model over one image.

    Tokens are the class token, if the model has one, and the patches row by row. attention: (layers, heads, tokens,
    tokens), rows are queries and columns keys; through: (tokens, tokens), the rollout through all layers (`rollout`).
    Every row sums to 1. grid: rows and columns of patches.
    """

    attention: Maps
    through: Maps
    grid: tuple[int, int]
    class_token: bool

    @property
    def heads(self) -> Maps:
        """Attention maps over patches, (layers, heads, rows, columns), each of which sums to 1.

        The class token's weights on the patches, renormalized; without a class token, the mean over all queries.
        """
        return self._maps(self.attention)

    @property
    def rollout(self) -> Maps:
        """Attention rollout over patches, (rows, columns), aggregated as in `heads`."""
        return self._maps(self.through)

    def _maps(self, weights: Maps) -> Maps:
        patch_weights = weights[..., 0, 1:] if self.class_token else weights.mean(axis=-2)
        shares = patch_weights / np.maximum(patch_weights.sum(axis=-1, keepdims=True), 1e-12)
        return shares.reshape(*patch_weights.shape[:-1], *self.grid)


@dataclass(frozen=True)
class ClassifiedImage(ImageAttention):
    """Attention of a classifier over one image, with its class probabilities, (classes,)."""

    probabilities: Maps


@torch.no_grad()
def classify(model: ImageClassifier, image: Tensor) -> ClassifiedImage:
    """Classify a normalized image (channels, height, width) and record the attention.

    Raises `ConfigError` for a model with a layer that has no attention weights, as `record_attention` does.
    """
    with recording(model) as recorded:
        logits = model(image[None])
    probabilities = logits[0].float().softmax(dim=-1).cpu().numpy()
    return ClassifiedImage(*_recorded(recorded), *_shape(model.vision), probabilities=probabilities)


@torch.no_grad()
def record_attention(model: VisionTransformer, image: Tensor) -> ImageAttention:
    """Record the attention of an image encoder over one image, (channels, height, width)."""
    with recording(model) as recorded:
        model(image[None])
    return ImageAttention(*_recorded(recorded), *_shape(model))


def _recorded(recorded: Recording) -> tuple[Maps, Maps]:
    """Return the stacked attention weights of a forward pass over one image, and their rollout."""
    if unrecorded := [name for name, entries in recorded.attended.items() if not entries]:
        raise ConfigError(f"patches: expected attention weights of every layer, found none of {unrecorded[0]}")
    layers = torch.stack([entries[0].weights[0].float().cpu() for entries in recorded.attended.values()])
    return layers.numpy(), rollout(layers).numpy()


def _shape(vision: VisionTransformer) -> tuple[tuple[int, int], bool]:
    return vision.grid, vision.class_token is not None


def rollout(layers: Tensor) -> Tensor:
    """Return the attention rollout (Abnar & Zuidema 2020, section 3): the product of ½ (mean of heads) + ½ I.

    layers: (layers, heads, query, key). Returns (query, key): the share of each input token in each output token, if
    half of every layer's output is its residual input.
    """
    through = torch.eye(layers.size(-1))
    for weights in layers.mean(dim=1):
        through = (weights + torch.eye(weights.size(-1))) / 2 @ through
    return through


@torch.no_grad()
def word_maps(model: ImageText, image: Tensor, tokens: Sequence[int]) -> Maps:
    """Return each (word, patch) pair's contribution to the similarity, (words, rows, columns); the sum is the cosine.

    `image` is (1, height, width), from -1 to 1.
    """
    device = next(model.parameters()).device
    shares = model.shares(image.to(device), torch.tensor(list(tokens), device=device))
    return shares.cpu().numpy().reshape(-1, *model.vision.grid)


def draw_attention(classified: ClassifiedImage, image: Maps, classes: Sequence[str], file: Path, *, title: str) -> None:
    """Draw the image, its rollout, and every layer's mean over heads and single heads, as PNG; brighter is larger.

    `image` is (channels, height, width), from 0 to 1.
    """
    layers, heads = classified.heads.shape[:2]
    columns = max(3, heads + 1)
    figure = Figure(figsize=(1.5 * columns, 1.65 * (layers + 1) + 0.5), layout="constrained")
    axes = figure.subplots(layers + 1, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    likeliest = classified.probabilities.argsort()[::-1][:3]
    _image(axes[0, 0], image)
    axes[0, 0].set_title("image", fontsize=8)
    _overlay(axes[0, 1], image, classified.rollout, "rollout")
    predictions = "\n".join(f"{classes[i]}  {100 * classified.probabilities[i]:.1f} %" for i in likeliest)
    axes[0, 2].text(0.0, 0.5, predictions, fontsize=9, va="center", transform=axes[0, 2].transAxes)
    for layer in range(layers):
        _overlay(axes[layer + 1, 0], image, classified.heads[layer].mean(axis=0), f"layer {layer + 1}, mean")
        for head in range(heads):
            _overlay(
                axes[layer + 1, head + 1],
                image,
                classified.heads[layer, head],
                f"head {layer + 1}.{head + 1}",
            )
    figure.suptitle(title, fontsize=10)
    save(figure, file)


def draw_words(maps: Maps, words: Sequence[str], picture: Maps, file: Path, *, title: str) -> None:
    """Draw the picture (height, width) and each word's map: patches that raise (red) or lower (blue) the similarity."""
    columns = 5
    rows = -(-(len(words) + 1) // columns)
    figure = Figure(figsize=(1.6 * columns, 1.8 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis in axes:
        axis.set_axis_off()
    _image(axes[0], picture[None])
    axes[0].set_title("picture", fontsize=8)
    largest = float(np.abs(maps).max())
    height, width = picture.shape
    for axis, word, weights in zip(axes[1:], words, maps, strict=False):
        axis.imshow(weights, cmap="RdBu_r", vmin=-largest, vmax=largest, extent=(0, width, height, 0))
        axis.contour(np.arange(width) + 0.5, np.arange(height) + 0.5, picture, levels=[0.25], colors="black",
                     linewidths=0.6)  # fmt: skip
        axis.set_title(f"{word}  {weights.sum():+.3f}", fontsize=8)
    bar = figure.colorbar(axes[1].images[0], ax=axes, fraction=0.02, pad=0.01, aspect=30)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(title, fontsize=10)
    save(figure, file)


def _image(axis: Axes, image: Maps) -> None:
    if len(image) == 1:
        axis.imshow(image[0], cmap="gray", vmin=0.0, vmax=1.0)
    else:
        axis.imshow(image.transpose(1, 2, 0).clip(0.0, 1.0))


def _overlay(axis: Axes, image: Maps, weights: Maps, name: str) -> None:
    """Overlay a map on its image in gray; the color scale ends at the map's largest value, which the title has."""
    _, height, width = image.shape
    axis.imshow(image.mean(axis=0), cmap="gray", vmin=0.0, vmax=1.0, extent=(0, width, height, 0))
    axis.imshow(weights, cmap="inferno", vmin=0.0, alpha=0.65, extent=(0, width, height, 0))
    axis.set_title(f"{name}, 0 to {weights.max():.2f}", fontsize=7)

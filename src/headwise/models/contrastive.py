"""Dual encoder of images and texts with a contrastive loss (CLIP, Radford et al. 2021, section 2).

    I = normalize(W_i mean(image encoder's states)),  T = normalize(W_t mean(text encoder's states))
    logits = e^s I Tᵀ;  loss = ½ (cross-entropy over each row + cross-entropy over each column)

CLIP pools with a class token and an end symbol; here the means over patches and over words are taken. Both projections
are linear, so every similarity is an exact sum of contributions of (word, patch) pairs (`ImageText.shares`).

Shape legend: batch = pairs, patches = positions of the image, words = positions of the text, d = width of the common
space.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.config import ModelConfig
from headwise.models.base import MixedPrecision
from headwise.models.build import check_one_stack
from headwise.models.encoder_only import EncoderOnly
from headwise.models.output_heads import pool
from headwise.models.vision import VisionTransformer
from headwise.nn.linear import Linear

_MAX_LOG_SCALE = math.log(100.0)  # upper bound of the learned logarithm of the scale (section 2.5)


class ImageText(MixedPrecision):
    """An image encoder and a text encoder with the same configuration, and a learned scale of the similarities."""

    def __init__(
        self, config: ModelConfig, shape: tuple[int, int, int], side: int, vocabulary: int, width: int
    ) -> None:
        super().__init__()
        check_one_stack(config, "images", "a model of images and texts")
        self.vision = VisionTransformer(config, shape, side, class_token=False)
        self.text = EncoderOnly(config, vocabulary)
        self.image_projection = Linear(config.d_model, width, bias=False)
        self.text_projection = Linear(config.d_model, width, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    @property
    def scale(self) -> Tensor:
        """Scale of the similarities: the inverse of the softmax temperature, at most 100.

        Its gradient passes the bound, so that a step beyond it can be undone.
        """
        beyond = (self.log_scale - self.log_scale.clamp(max=_MAX_LOG_SCALE)).detach()
        return (self.log_scale - beyond).exp()

    def image_vectors(self, images: Tensor) -> Tensor:
        """Return unit vectors (batch, d) float32 of images (batch, channels, height, width)."""
        return _unit(self.image_projection(self.vision(images).mean(dim=1)))

    def text_vectors(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return unit vectors (batch, d) float32 of tokens (batch, words); mask is True at real tokens."""
        return _unit(self.text_projection(pool(self.text(tokens, mask), mask, "mean")))

    def forward(self, images: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the logits (image, text) of every image with every text."""
        return self.scale * self.image_vectors(images) @ self.text_vectors(tokens, mask).T

    def shares(self, image: Tensor, tokens: Tensor) -> Tensor:
        """Return the contributions (words, patches) of word-patch pairs to the similarity of a text and an image.

        `image` is (channels, height, width), `tokens` (words,). The contributions add up to the cosine of the vectors.
        """
        patches = self.image_projection(self.vision(image[None])[0]).float()  # (patches, d)
        words = self.text_projection(self.text(tokens[None])[0]).float()
        patches, words = patches / len(patches), words / len(words)
        return words @ patches.T / (words.sum(dim=0).norm() * patches.sum(dim=0).norm())


def contrastive_loss(logits: Tensor) -> Tensor:
    """Return the symmetric cross-entropy of logits (image, text), pairs on the diagonal, summed over the batch."""
    targets = torch.arange(len(logits), device=logits.device)
    by_image = functional.cross_entropy(logits, targets, reduction="sum")
    return (by_image + functional.cross_entropy(logits.T, targets, reduction="sum")) / 2


def _unit(vectors: Tensor) -> Tensor:
    return functional.normalize(vectors.float(), dim=-1)

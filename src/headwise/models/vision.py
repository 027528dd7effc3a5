"""The Vision Transformer (ViT, Dosovitskiy et al. 2021): the paper's encoder over the patches of an image.

    z₀ = [x_class; x₁E; x₂E; …; x_N E] + E_pos        (their equation 1)

Shape legend: batch = images, side = patch size in pixels, patches = (height / side) (width / side), row by row.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.base import MixedPrecision
from headwise.models.build import check_one_stack
from headwise.models.encoder_only import Encoder
from headwise.models.single import BertEmbedding
from headwise.nn.dropout import dropout
from headwise.nn.linear import Linear


def patches(images: Tensor, side: int) -> Tensor:
    """Split images (batch, channels, height, width) into patches (batch, patches, channels · side · side)."""
    batch, channels, height, width = images.shape
    grid = images.view(batch, channels, height // side, side, width // side, side)
    return grid.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * side * side)


class VisionTransformer(MixedPrecision):
    """Encoder of images, to hidden states of an optional class token and of every patch.

    Raises `ConfigError` if the patch size doesn't divide the image size, or there are more than `model.max_length`
    tokens.
    """

    def __init__(
        self, config: ModelConfig, shape: tuple[int, int, int], side: int, *, class_token: bool = True
    ) -> None:
        super().__init__()
        channels, height, width = shape
        if height % side or width % side:
            raise ConfigError(
                f"patch: expected a number that divides the images' {width} x {height} pixels, found {side}"
            )
        self.config, self.side, self.grid = config, side, (height // side, width // side)
        tokens = self.grid[0] * self.grid[1] + class_token
        if tokens > config.max_length:
            raise ConfigError(
                f"model.max_length: expected at least {tokens}, for {tokens - class_token} patches"
                f"{' and the class token' if class_token else ''}, found {config.max_length}"
            )
        self.patch = Linear(channels * side * side, config.d_model)
        self.class_token = nn.Parameter(torch.empty(config.d_model)) if class_token else None
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=config.d_model**-0.5)
        self.positions = BertEmbedding(config)
        self.encoder = Encoder(config)

    def forward(self, images: Tensor) -> Tensor:
        """Return the hidden states (batch, tokens, d_model) of normalized images (batch, channels, height, width)."""
        x = self.patch(patches(images.to(self.compute_dtype), self.side))
        if self.class_token is not None:
            class_tokens = self.class_token.to(x.dtype).expand(x.size(0), 1, -1)
            x = torch.cat([class_tokens, x], dim=1)
        return self.encoder(self.positions(x))


class ImageClassifier(MixedPrecision):
    """Image classifier: a linear map of the hidden state of the class token, or of the mean over all patches.

    The images have `shape` (channels, height, width). Raises `ConfigError` for another model than a Transformer.
    """

    def __init__(
        self, config: ModelConfig, shape: tuple[int, int, int], side: int, classes: int, *, class_token: bool
    ) -> None:
        super().__init__()
        check_one_stack(config, "images", "a model of images")
        self.vision = VisionTransformer(config, shape, side, class_token=class_token)
        self.output = Linear(config.d_model, classes)
        self.dropout = config.dropout

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (batch, classes) of images (batch, channels, height, width)."""
        hidden = self.vision(images)
        pooled = hidden.mean(dim=1) if self.vision.class_token is None else hidden[:, 0]
        return self.output(dropout(pooled, self.dropout, self.training))

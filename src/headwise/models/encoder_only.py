"""The encoder-only Transformer (BERT, Devlin et al. 2019): the paper's encoder over one text or other embeddings.

Shape legend: batch = texts, time = tokens (or patches), d_model = width.
"""

from __future__ import annotations

from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.blocks import final_norm
from headwise.models.single import SingleText
from headwise.models.transformer import EncoderLayer
from headwise.nn.layers import Stack
from headwise.nn.masks import padding_mask
from headwise.nn.positions import attention_positions


class Encoder(nn.Module):
    """A stack of `encoder_layers` bidirectional layers, and the final normalization.

    The input is embeddings, of tokens or of image patches.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        inside = attention_positions(config, config.encoder_layers, causal=False)
        self.layers = Stack(EncoderLayer(config, positions) for positions in inside)
        self.norm = final_norm(config)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode x (batch, time, d_model) to hidden states of the same shape; mask (batch, time) bool, True = real."""
        attendable = None if mask is None else padding_mask(mask)
        for layer in self.layers:
            x = layer(x, attendable)
        return self.norm(x)


class EncoderOnly(SingleText):
    """Bidirectional encoder from tokens to hidden states; output heads are in `headwise.models.output_heads`.

    Raises `ConfigError` for unknown kinds of attention and positions, and for those that can't be combined.
    """

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__(config, size)
        self.encoder = Encoder(config)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """Return the hidden states (batch, time, d_model) of tokens (batch, time).

        mask (batch, time) bool is True at real tokens (None: all are real); segments (batch, time) are segment ids,
        less than `model.segments` (None: all 0).
        """
        return self.encoder(self.positions(self.look_up(tokens), segments=segments), mask)

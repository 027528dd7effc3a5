"""Output heads of an encoder, from hidden states to logits or to one vector per text; and an encoder with a head.

Shape legend: batch = texts, time = tokens, d_model = width; mask (batch, time) bool, True = real token.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.base import MixedPrecision
from headwise.models.blocks import normalization
from headwise.models.encoder_only import EncoderOnly
from headwise.nn.dropout import dropout
from headwise.nn.layers import ACTIVATIONS
from headwise.nn.linear import Linear, linear

Pooling = Literal["first", "mean", "max"]


class Pooler(nn.Module):
    """One vector per text: tanh(W h + b) of the first token (Devlin et al. 2019), or of the mean or maximum of all."""

    def __init__(self, d_model: int, pooling: Pooling = "first") -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.dense = Linear(d_model, d_model)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """Pool hidden states (batch, time, d_model) to (batch, d_model)."""
        return torch.tanh(self.dense(pool(hidden, mask, self.pooling)))


def pool(hidden: Tensor, mask: Tensor | None, pooling: Pooling) -> Tensor:
    """Return the state of the first token, or the mean or maximum over the real tokens, (batch, d_model)."""
    if pooling == "first":
        return hidden[:, 0]
    if pooling == "max":
        lowest = torch.finfo(hidden.dtype).min
        return (hidden if mask is None else hidden.masked_fill(~mask[:, :, None], lowest)).amax(dim=1)
    if mask is None:
        return hidden.mean(dim=1)
    weights = mask.to(hidden.dtype)
    return (weights[:, None] @ hidden).squeeze(1) / weights.sum(dim=1, keepdim=True).clamp(min=1)


class MaskedTokenHead(nn.Module):
    """Masked-language-model head: logits Norm(f(W h + b)) Eᵀ + c, with the embeddings E (Devlin et al. 2019)."""

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model)
        self.norm = normalization(config)
        self.bias = nn.Parameter(torch.zeros(size))
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """Return the logits (…, size) of hidden states (…, d_model), given embeddings (size, d_model)."""
        x = self.norm(self.activation(self.dense(hidden)))
        return linear(x, embeddings.to(x.dtype), self.bias.to(x.dtype))


class ClassificationHead(nn.Module):
    """Sequence classification head: logits of `classes` labels from the pooled vector of a text."""

    def __init__(self, config: ModelConfig, classes: int, pooling: Pooling = "first") -> None:
        super().__init__()
        self.pooler = Pooler(config.d_model, pooling)
        self.output = Linear(config.d_model, classes)
        self.dropout = config.dropout

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the logits (batch, classes) of hidden states (batch, time, d_model)."""
        pooled = self.pooler(hidden, mask)
        return self.output(dropout(pooled, self.dropout, self.training))


class TaggingHead(nn.Module):
    """Token classification head: logits of `tags` labels for every token."""

    def __init__(self, config: ModelConfig, tags: int) -> None:
        super().__init__()
        self.output = Linear(config.d_model, tags)
        self.dropout = config.dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits (…, tags) of hidden states (…, d_model)."""
        return self.output(dropout(hidden, self.dropout, self.training))


class SpanHead(nn.Module):
    """Span head: logits of each token as the first and the last of the answer (Devlin et al. 2019, section 4.2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.output = Linear(config.d_model, 2)
        self.dropout = config.dropout

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return start and end logits (batch, time) of hidden states (batch, time, d_model).

        Padding gets the lowest logit of the dtype.
        """
        logits = self.output(dropout(hidden, self.dropout, self.training))
        if mask is not None:
            logits = logits.masked_fill(~mask[:, :, None], torch.finfo(logits.dtype).min)
        start, end = logits.unbind(dim=-1)
        return start, end


class HeadedEncoder(MixedPrecision):
    """An encoder with an output head: `encoder` maps tokens to hidden states, `head` maps these to logits."""

    def __init__(self, encoder: EncoderOnly, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """Return the hidden states (batch, time, d_model), the input of the head; see `EncoderOnly.forward`."""
        return self.encoder(tokens, mask, segments)

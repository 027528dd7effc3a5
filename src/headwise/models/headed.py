"""An encoder with one head on it, and where its weights may come from."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from headwise.models.encoder_only import EncoderOnly
from headwise.models.weights import Weights


class HeadedEncoder(nn.Module):
    """`encoder` turns tokens into hidden states, `head` these into logits (see `headwise.models.heads`)."""

    def __init__(self, encoder: EncoderOnly, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the activations; parameters stay in float32."""
        return self.encoder.compute_dtype

    @compute_dtype.setter
    def compute_dtype(self, dtype: torch.dtype) -> None:
        self.encoder.compute_dtype = dtype

    def forward(self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """Hidden states (batch, time, d_model), for the head; see `EncoderOnly.forward`."""
        return self.encoder(tokens, mask, segments)


def load_encoder(model: HeadedEncoder, path: Path) -> None:
    """Fill the encoder, not the head, from another headed encoder's file.

    Raises `CheckpointError` naming the file, and the first tensor that doesn't fit.
    """
    weights = Weights(path)
    parameters = {f"encoder.{name}": parameter for name, parameter in model.encoder.named_parameters()}
    weights.check({name: parameter.shape for name, parameter in parameters.items()}, within="encoder.")
    weights.fill(parameters)

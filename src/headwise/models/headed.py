"""An encoder with one head on it, and where its weights may come from."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from headwise.errors import CheckpointError
from headwise.models.encoder_only import EncoderOnly


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
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: expected a trained model, found none that can be read ({error})"
        ) from None
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("encoder."):
                continue
            found = tensors.get(name)
            if found is None or found.shape != parameter.shape:
                shape = "none of that name" if found is None else f"one of shape {tuple(found.shape)}"
                raise CheckpointError(
                    f"{path}: expected tensor {name} of shape {tuple(parameter.shape)}, found {shape}"
                )
            parameter.copy_(found)

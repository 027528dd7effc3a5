"""Forced decoding: the log-probability of a given output under a model."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.models.base import Seq2Seq

_POSITIONS = 2048  # target positions projected to the vocabulary at once


def token_log_probs(model: Seq2Seq, source: Tensor, mask: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return log P(outputs[i] | source, inputs[..i]) by teacher forcing, float32 (batch, target)."""
    hidden = model(source, mask, inputs).flatten(0, 1)  # (batch·target, d_model)
    token_ids = outputs.flatten()[:, None]
    parts = [
        model.project(positions).float().log_softmax(-1).gather(-1, ids)
        for positions, ids in zip(hidden.split(_POSITIONS), token_ids.split(_POSITIONS), strict=True)
    ]
    return torch.cat(parts).view_as(outputs)

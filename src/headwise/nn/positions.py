"""Positions added to the embeddings (Vaswani et al. 2017, section 3.5).

PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sinusoids(length: int, d_model: int) -> Tensor:
    """Return the paper's table, (length, d_model) float32, computed in float64."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table.float()


class Positions(nn.Module):
    """Adds a vector for each position: the paper's sinusoids, a learned table (Table 3, row E), or nothing."""

    def __init__(self, kind: str, length: int, d_model: int) -> None:
        super().__init__()
        self.length = length
        self.table: Tensor | None
        if kind == "sinusoidal":
            self.register_buffer("table", sinusoids(length, d_model), persistent=False)
        elif kind == "learned":
            self.table = nn.Parameter(torch.empty(length, d_model))
            nn.init.normal_(self.table, std=d_model**-0.5)
        else:
            assert kind == "none", kind
            self.table = None

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add positions start, start+1, … to x (batch, time, d_model).

        Raises ValueError where the sequence runs past the table.
        """
        if self.table is None:
            return x
        end = start + x.size(-2)
        if end > self.length:
            raise ValueError(f"expected at most {self.length} positions (model.max_length), found {end}")
        return x + self.table[start:end].to(x.dtype)

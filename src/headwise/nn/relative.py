"""Relative position bias: a bias on the scores by the distance of query and key, stored in linear memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RelativeBias:
    """bias[b, h, i, j] = table[b, h, i, clip(j - p, -reach, reach) + reach], with p the position of query i.

    table is (batch or 1, heads, query or 1, 2 · reach + 1). The queries are the last positions, as in
    `headwise.nn.masks.causal_mask`: p = i + keys - queries.
    """

    table: Tensor

    @property
    def reach(self) -> int:
        """The maximum distance; longer ones are clipped to it."""
        return self.table.size(-1) // 2

    def at(self, rows: Tensor, distance: Tensor) -> Tensor:
        """Return the bias (batch, heads, …, query, key) of queries `rows` (…, query) at `distance` (…, query, key)."""
        index = distance.clamp(-self.reach, self.reach) + self.reach
        if self.table.size(2) == 1:
            return self.table[:, :, 0][..., index]
        per_query = self.table[:, :, rows]  # (batch, heads, …, query, 2 · reach + 1)
        return per_query.gather(-1, index.expand(*per_query.shape[:-1], index.size(-1)))

    def dense(self, queries: int, keys: int) -> Tensor:
        """Return the dense bias, (batch or 1, heads, query, key)."""
        rows = torch.arange(queries, device=self.table.device)
        cols = torch.arange(keys, device=self.table.device)
        return self.at(rows, cols - (rows + keys - queries)[:, None])


def dense_bias(bias: Tensor | RelativeBias | None, queries: int, keys: int) -> Tensor | None:
    """Return a bias as a dense tensor, for code that computes all scores at once."""
    return bias.dense(queries, keys) if isinstance(bias, RelativeBias) else bias

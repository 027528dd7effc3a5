"""Exact softmax attention in linear memory (Rabe & Staats 2021; Dao et al. 2022, "FlashAttention", algorithms 1 and 4).

Scores are computed one tile at a time. Over the tiles of a query, only the maximum score m, the denominator
l = Σ exp(s - m) and the numerator Σ exp(s - m) v are stored, and rescaled whenever m increases. The backward pass
recomputes each tile from the saved log-sum-exp: P = exp(S - log-sum-exp), dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headwise.nn.attention import Bias, Mask, Options, attention_weights, register
from headwise.nn.device import sum_dtype
from headwise.nn.relative import RelativeBias


@dataclass(frozen=True)
class _Tiling:
    """Sizes and options common to all tiles. `relative`: the bias is the table of a `RelativeBias`."""

    queries: int
    keys: int
    chunk: int
    causal: bool
    relative: bool
    dropout: float
    seed: int

    def rows(self) -> Iterator[slice]:
        for start in range(0, self.queries, self.chunk):
            yield slice(start, min(start + self.chunk, self.queries))

    def cols(self, rows: slice) -> Iterator[slice]:
        """Yield the tiles of keys that some query of `rows` may attend to."""
        end = min(self.keys, rows.stop + self.keys - self.queries) if self.causal else self.keys
        for start in range(0, end, self.chunk):
            yield slice(start, min(start + self.chunk, end))

    def distance(self, rows: slice, cols: slice, device: torch.device) -> Tensor:
        """Return the position of the key minus that of the query, (row, col)."""
        i = torch.arange(rows.start, rows.stop, device=device) + self.keys - self.queries
        return torch.arange(cols.start, cols.stop, device=device) - i[:, None]

    def allowed(self, mask: Mask, rows: slice, cols: slice, device: torch.device) -> Mask:
        tile = None if mask is None else _cut(_cut(mask, 2, rows), 3, cols)
        if self.causal and cols.stop - 1 > rows.start + self.keys - self.queries:
            earlier = self.distance(rows, cols, device) <= 0
            tile = earlier if tile is None else tile & earlier
        return tile

    def bias(self, part: Tensor, rows: slice, cols: slice) -> Tensor:
        """Return a tile of the bias; `part` is the bias of the rows."""
        if not self.relative:
            return _cut(part, 3, cols)
        indices = torch.arange(rows.stop - rows.start, device=part.device)
        return RelativeBias(part).at(indices, self.distance(rows, cols, part.device))

    def dropout_factors(self, weights: Tensor, rows: slice, cols: slice) -> Tensor:
        """Return the dropout factors of a tile, 0 or 1 / (1 - p).

        The generator is seeded per tile, so the backward pass draws the same factors.
        """
        generator = torch.Generator(weights.device).manual_seed(self.seed + rows.start * self.keys + cols.start)
        draws = torch.rand(weights.shape, generator=generator, device=weights.device)
        return (draws >= self.dropout).to(weights.dtype) / (1 - self.dropout)


def _cut(x: Tensor, dim: int, part: slice) -> Tensor:
    return x if x.size(dim) == 1 else x.narrow(dim, part.start, part.stop - part.start)


class _Chunked(torch.autograd.Function):
    """Tiled attention, which saves its inputs, its result and one log-sum-exp per query for the backward pass."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, tiling: _Tiling
    ) -> Tensor:
        out = v.new_empty(*q.shape[:3], v.size(3))
        log_sum = q.new_empty(*q.shape[:3], 1, dtype=sum_dtype(q))
        for rows in tiling.rows():
            out[:, :, rows], log_sum[:, :, rows] = _forward_rows(q, k, v, mask, bias, tiling, rows)
        ctx.save_for_backward(q, k, v, mask, bias, out, log_sum)
        ctx.tiling = tiling
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, mask, bias, out, log_sum = ctx.saved_tensors
        tiling: _Tiling = ctx.tiling
        dq, dk, dv = (torch.zeros_like(x, dtype=sum_dtype(x)) for x in (q, k, v))
        db = torch.zeros_like(bias, dtype=sum_dtype(bias)) if ctx.needs_input_grad[4] else None
        for rows in tiling.rows():
            delta = (gradient[:, :, rows] * out[:, :, rows]).to(log_sum.dtype).sum(-1, keepdim=True)
            bias_rows = None if bias is None else _cut(bias, 2, rows)
            tiles: list[Tensor] = []  # gradients of the scores, where the bias has one
            for cols in tiling.cols(rows):
                scores = _scores(q, k, mask, bias_rows, tiling, rows, cols)
                weights = (scores - log_sum[:, :, rows]).exp()
                d_weights = (gradient[:, :, rows] @ v[:, :, cols].transpose(-2, -1)).to(weights.dtype)
                dropped = weights
                if tiling.dropout:
                    factors = tiling.dropout_factors(weights, rows, cols)
                    dropped, d_weights = weights * factors, d_weights * factors
                d_scores = weights * (d_weights - delta)  # (batch, heads, row, col)
                scaled = (d_scores * q.size(-1) ** -0.5).to(q.dtype)
                dv[:, :, cols] += dropped.to(q.dtype).transpose(-2, -1) @ gradient[:, :, rows]
                dq[:, :, rows] += scaled @ k[:, :, cols]
                dk[:, :, cols] += scaled.transpose(-2, -1) @ q[:, :, rows]
                if db is not None:
                    tiles.append(d_scores)
            if db is not None and bias_rows is not None:
                _cut(db, 2, rows).add_(_bias_gradient(bias_rows, tiling, rows, torch.cat(tiles, dim=3)))
        d_bias = None if bias is None or db is None else db.to(bias.dtype)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, d_bias, None


def _bias_gradient(bias: Tensor, tiling: _Tiling, rows: slice, d_scores: Tensor) -> Tensor:
    """Return the gradient of the bias of some rows, from that of their scores, (batch, heads, row, key)."""
    leaf = bias.detach().requires_grad_()
    with torch.enable_grad():
        dense = tiling.bias(leaf, rows, slice(0, d_scores.size(3))).expand_as(d_scores)
        (result,) = torch.autograd.grad(dense, leaf, d_scores.to(leaf.dtype))
    return result


def _scores(q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None, tiling: _Tiling, rows: slice, cols: slice) -> Tensor:
    """Return the scores of a tile, minus infinity where masked; `bias` is the bias of the rows."""
    scores = ((q[:, :, rows] * q.size(-1) ** -0.5) @ k[:, :, cols].transpose(-2, -1)).to(sum_dtype(q))
    if bias is not None:
        scores = scores + tiling.bias(bias, rows, cols).to(scores.dtype)
    if (allowed := tiling.allowed(mask, rows, cols, q.device)) is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    return scores


def _forward_rows(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, tiling: _Tiling, rows: slice
) -> tuple[Tensor, Tensor]:
    """Return the output (batch, heads, row, d_v) and the log-sum-exp (batch, heads, row, 1) of the queries `rows`."""
    bias = None if bias is None else _cut(bias, 2, rows)
    shape = (*q.shape[:2], rows.stop - rows.start)
    numerator = q.new_zeros(*shape, v.size(3), dtype=sum_dtype(q))
    denominator = q.new_zeros(*shape, 1, dtype=sum_dtype(q))
    # Finite, so that queries without any allowed key get no NaN.
    peak = torch.full_like(denominator, torch.finfo(denominator.dtype).min / 2)
    for cols in tiling.cols(rows):
        scores = _scores(q, k, mask, bias, tiling, rows, cols)
        new_peak = torch.maximum(peak, scores.amax(-1, keepdim=True))
        weights, rescale = (scores - new_peak).exp(), (peak - new_peak).exp()
        dropped = weights * tiling.dropout_factors(weights, rows, cols) if tiling.dropout else weights
        numerator = numerator * rescale + dropped.to(v.dtype) @ v[:, :, cols]
        denominator = denominator * rescale + weights.sum(-1, keepdim=True)
        peak = new_peak
    denominator = denominator.masked_fill(denominator == 0, 1.0)
    return (numerator / denominator).to(v.dtype), peak + denominator.log()


@register("memory_efficient", structured=True, weights=attention_weights)
def memory_efficient(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias, dropout: float, *, causal: bool, options: Options
) -> Tensor:
    """Compute the same function as `reference`, in memory linear in queries and keys, besides mask and bias."""
    tiling = _Tiling(
        queries=q.size(2),
        keys=k.size(2),
        chunk=options.memory_efficient.chunk,
        causal=causal,
        relative=isinstance(bias, RelativeBias),
        dropout=dropout,
        seed=int(torch.randint(2**62, ()).item()) if dropout else 0,
    )
    bias_tensor = bias.table if isinstance(bias, RelativeBias) else bias
    return _Chunked.apply(q, k, v, mask, bias_tensor, tiling)  # type: ignore[no-any-return]

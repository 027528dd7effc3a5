"""Cross-attention weights of given outputs, recorded during forced decoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import forced_batches
from headwise.engine.base import BATCH_TOKENS
from headwise.engine.symbols import Symbols
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.nn.recording import recording


@torch.inference_mode()
def cross_attention(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    symbols: Symbols,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Tensor]:
    """Return the cross-attention weights of each sentence pair, shape (layers, heads, target, source).

    `sources` are ids that end with the end symbol; `targets` are ids without special symbols. Row t of the target axis
    has the weights with which target token t was predicted; the last row is for the end symbol. An ensemble is as in
    `Engine.cross_attention`. Raises `ConfigError` for a model without cross-attention, and `DataError` for ids that
    aren't in the vocabularies.
    """
    results: dict[int, Tensor] = {}
    for batch in forced_batches(model, sources, targets, symbols, batch_tokens):
        with recording(model) as records:
            model(batch.source, batch.mask, batch.inputs)
        layers = [entries[0] for name, entries in records.weights.items() if name.endswith("cross_attention")]
        if not layers:
            raise ConfigError("alignments: expected a model with cross-attention, found none in this one")
        if len({layer.shape[1] for layer in layers}) > 1:
            layers = [layer.mean(1, keepdim=True) for layer in layers]
        weights = torch.stack(layers, dim=1).float().cpu()  # (batch, layers, heads, target, source)
        for found, row in zip(weights, batch.rows, strict=True):
            results[row] = found[:, :, : len(targets[row]) + 1, : len(sources[row])]
    return [results[index] for index in range(len(sources))]

"""Cross-attention weights of given outputs, recorded during forced decoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import batches, padded
from headwise.engine.base import BATCH_TOKENS
from headwise.engine.ids import check_ids
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
    has the weights with which target token t was predicted; the last row is for the end symbol. Raises `ConfigError`
    for a model without cross-attention, and `DataError` for ids that aren't in the vocabularies.
    """
    device = model.device
    check_ids(sources, model.source_size, "source")
    check_ids(targets, model.target_size, "target", empty=True)
    lengths = [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    results: dict[int, Tensor] = {}
    for batch in batches(lengths, batch_tokens):
        source, mask = padded([sources[index] for index in batch], symbols.pad, device)
        inputs, _ = padded([[symbols.bos, *targets[index]] for index in batch], symbols.pad, device)
        with recording(model) as records:
            model(source, mask, inputs)
        layers = [entries[0] for name, entries in records.weights.items() if name.endswith("cross_attention")]
        if not layers:
            raise ConfigError("alignments: expected a model with cross-attention, found none in this one")
        weights = torch.stack(layers, dim=1).float().cpu()  # (batch, layers, heads, target, source)
        for row, index in enumerate(batch):
            results[index] = weights[row, :, :, : len(targets[index]) + 1, : len(sources[index])]
    return [results[index] for index in range(len(sources))]

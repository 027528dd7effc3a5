"""Word alignment out of cross-attention: which source word each target word looks at.

The model is made to say a given output (forced decoding) while its cross-attention is recorded. The weights of
all heads of the chosen layer are averaged, subwords are added up to words, and each target word is linked to the
source word that it attends to most (Garg et al. 2019, "Jointly learning to align and translate with Transformer
models", section 3, whose layer is the last but one).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import BATCH_TOKENS, batches, padded
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.ids import check_ids
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import recording

Link = tuple[int, int]
_WORD_START = "▁"


@torch.inference_mode()
def cross_attention(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    symbols: Symbols,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Tensor]:
    """Return for each pair the weights (layers, heads, target, source) with which each target token was predicted.

    `sources` are ids that end with the end symbol; `targets` are ids without special symbols, for which the
    result has one row each and a last one for the end symbol. Raises `ConfigError` for a model without
    cross-attention, and `DataError` for ids that aren't in the vocabularies.
    """
    device = model.device
    check_ids(sources, model.source_size, "source")
    check_ids(targets, model.target_size, "target", empty=True)
    lengths = [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    results: dict[int, Tensor] = {}
    for rows in batches(lengths, batch_tokens):
        source, mask = padded([sources[row] for row in rows], symbols.pad, device)
        inputs, _ = padded([[symbols.bos, *targets[row]] for row in rows], symbols.pad, device)
        with recording(model) as records:
            model(source, mask, inputs)
        layers = [entries[0] for name, entries in records.items() if name.endswith("cross_attention")]
        if not layers:
            raise ConfigError("alignments: expected a model with cross-attention, found none in this one")
        weights = torch.stack(layers, dim=1).float().cpu()  # (batch, layers, heads, target, source)
        for number, row in enumerate(rows):
            results[row] = weights[number, :, :, : len(targets[row]) + 1, : len(sources[row])]
    return [results[row] for row in range(len(sources))]


def word_links(
    weights: Tensor, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[Link, ...]:
    """Return one (source word, target word) link, from 0, for each target word.

    `weights` is (layers, heads, target, source) over subwords and may have more rows and columns for end symbols,
    which are left out. Words are what spaces separate.
    """
    if not source_pieces or not target_pieces:
        return ()
    target_words, source_words = word_numbers(target_pieces), word_numbers(source_pieces)
    layer = weights[max(len(weights) - 2, 0)].mean(0)
    part = layer[: len(target_pieces), : len(source_pieces)]
    rows = part.new_zeros(target_words[-1] + 1, part.shape[1]).index_add_(0, torch.tensor(target_words), part)
    words = rows.new_zeros(len(rows), source_words[-1] + 1).index_add_(1, torch.tensor(source_words), rows)
    return tuple((source, target) for target, source in enumerate(words.argmax(1).tolist()))


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the number of the word, from 0, that each piece belongs to."""
    numbers, number = [], 0
    for position, piece in enumerate(pieces):
        number += position > 0 and piece.startswith(_WORD_START)
        numbers.append(number)
    return numbers

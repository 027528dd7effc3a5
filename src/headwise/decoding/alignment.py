"""Word alignment from cross-attention.

The cross-attention weights of a given output are recorded during forced decoding. The weights are averaged over
all heads of one layer and summed from subwords to words. Each target word is aligned to the source word that it
attends to most (Garg et al. 2019, "Jointly learning to align and translate with Transformer models", section 3,
which takes the last but one layer).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import BATCH_TOKENS, batches, padded
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_ids
from headwise.engine.symbols import Symbols
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.nn.recording import recording

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


def word_links(
    weights: Tensor, source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[Link, ...]:
    """Return one (source word, target word) link for each target word; indices start at 0.

    `weights` is (layers, heads, target, source) over subwords; rows and columns of end symbols are ignored. Words
    are separated by spaces.
    """
    if not source_pieces or not target_pieces:
        return ()
    target_words, source_words = word_numbers(target_pieces), word_numbers(source_pieces)
    heads_mean = weights[max(len(weights) - 2, 0)].mean(0)
    subword_weights = heads_mean[: len(target_pieces), : len(source_pieces)]
    by_target_word = subword_weights.new_zeros(target_words[-1] + 1, subword_weights.shape[1]).index_add_(
        0, torch.tensor(target_words), subword_weights
    )
    by_word = by_target_word.new_zeros(len(by_target_word), source_words[-1] + 1).index_add_(
        1, torch.tensor(source_words), by_target_word
    )
    return tuple((source, target) for target, source in enumerate(by_word.argmax(1).tolist()))


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the index of the word, from 0, that each subword belongs to."""
    numbers, number = [], 0
    for position, piece in enumerate(pieces):
        number += position > 0 and piece.startswith(_WORD_START)
        numbers.append(number)
    return numbers


def each_links(
    align: Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Sequence[tuple[Link, ...]]],
    sources: Sequence[Sequence[int]],
    hypotheses_by_source: Sequence[Sequence[Hypothesis]],
) -> Iterator[list[tuple[Link, ...]]]:
    """Yield the word alignments of each source's hypotheses; `align` returns those of sources and targets."""
    repeated = [ids for ids, found in zip(sources, hypotheses_by_source, strict=True) for _ in found]
    targets = [hypothesis.tokens for found in hypotheses_by_source for hypothesis in found]
    links = iter(align(repeated, targets))
    for found in hypotheses_by_source:
        yield list(itertools.islice(links, len(found)))

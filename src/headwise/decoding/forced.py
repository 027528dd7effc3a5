"""Forced decoding: the log-probability that a model gives to a given output."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import BATCH_TOKENS, batches, padded
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis, length_penalty
from headwise.decoding.ids import check_ids
from headwise.models.base import Seq2Seq

_POSITIONS = 2048  # projected to the vocabulary at once


@torch.inference_mode()
def score(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    symbols: Symbols,
    *,
    alpha: float,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Hypothesis]:
    """Score each target, ids without special symbols, after its source, ids that end with the end symbol.

    The result has the tokens' and the end symbol's log-probabilities, their sum, and the score with the
    length penalty's exponent `alpha`: what the search reports when it finds the same tokens. In the order
    given. Raises `DataError` for ids that aren't in the vocabularies.
    """
    device = model.device
    check_ids(sources, model.source_size, "source")
    check_ids(targets, model.target_size, "target", empty=True)
    lengths = [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    results: dict[int, Hypothesis] = {}
    for rows in batches(lengths, batch_tokens):
        source, mask = padded([sources[row] for row in rows], symbols.pad, device)
        inputs, _ = padded([[symbols.bos, *targets[row]] for row in rows], symbols.pad, device)
        outputs, real = padded([[*targets[row], symbols.eos] for row in rows], symbols.pad, device)
        gains = token_log_probs(model, source, mask, inputs, outputs)
        for row, values, counted in zip(rows, gains.tolist(), real.sum(1).tolist(), strict=True):
            values = values[:counted]
            total = sum(values)
            results[row] = Hypothesis(
                tuple(targets[row]), total, total / length_penalty(counted, alpha), tuple(values)
            )
    return [results[row] for row in range(len(sources))]


def token_log_probs(model: Seq2Seq, source: Tensor, mask: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return log P(outputs[i] | source, inputs[..i]) as float32 (batch, target), by teacher forcing."""
    hidden = model(source, mask, inputs).flatten(0, 1)  # (batch·target, d_model)
    wanted = outputs.flatten()[:, None]
    parts = [
        model.project(some).float().log_softmax(-1).gather(-1, ids)
        for some, ids in zip(hidden.split(_POSITIONS), wanted.split(_POSITIONS), strict=True)
    ]
    return torch.cat(parts).view_as(outputs)

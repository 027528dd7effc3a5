"""Forced decoding: the log-probability of a given output under a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import forced_batches, padded
from headwise.engine.base import BATCH_TOKENS
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.symbols import Symbols
from headwise.models.base import Seq2Seq

_POSITIONS = 2048  # target positions projected to the vocabulary at once


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
    """Score sentence pairs by forced decoding; results are in the order of `sources`.

    `sources` are ids that end with the end symbol, `targets` ids without special symbols. A result has the
    log-probabilities of the tokens and the end symbol, their sum, and the score with the length penalty's exponent
    `alpha`: the same values that the search reports for these tokens. Raises `DataError` for ids that aren't in the
    vocabularies.
    """
    given = torch.tensor(symbols.given, dtype=torch.long, device=model.device)
    results: dict[int, Hypothesis] = {}
    for batch in forced_batches(model, sources, targets, symbols, batch_tokens):
        outputs, real = padded(
            [[*targets[row], symbols.eos] for row in batch.rows], symbols.pad, model.device
        )
        output_log_probs = token_log_probs(model, batch.source, batch.mask, batch.inputs, outputs)
        output_log_probs[:, 0].masked_fill_(torch.isin(outputs[:, 0], given), 0.0)
        for row, log_probs, length in zip(
            batch.rows, output_log_probs.tolist(), real.sum(1).tolist(), strict=True
        ):
            results[row] = Hypothesis.scored(targets[row], log_probs[:length], alpha)
    return [results[index] for index in range(len(sources))]


def token_log_probs(model: Seq2Seq, source: Tensor, mask: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return log P(outputs[i] | source, inputs[..i]) by teacher forcing, float32 (batch, target)."""
    hidden = model(source, mask, inputs).flatten(0, 1)  # (batch·target, d_model)
    token_ids = outputs.flatten()[:, None]
    parts = [
        model.project(positions).float().log_softmax(-1).gather(-1, ids)
        for positions, ids in zip(hidden.split(_POSITIONS), token_ids.split(_POSITIONS), strict=True)
    ]
    return torch.cat(parts).view_as(outputs)

"""Forced decoding: the log-probability of a given output under a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.decoding.batching import batches, padded
from headwise.engine.base import BATCH_TOKENS
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_ids
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
    device = model.device
    check_ids(sources, model.source_size, "source")
    check_ids(targets, model.target_size, "target", empty=True)
    lengths = [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    results: dict[int, Hypothesis] = {}
    for batch in batches(lengths, batch_tokens):
        source, mask = padded([sources[index] for index in batch], symbols.pad, device)
        inputs, _ = padded([[symbols.bos, *targets[index]] for index in batch], symbols.pad, device)
        outputs, real = padded([[*targets[index], symbols.eos] for index in batch], symbols.pad, device)
        output_log_probs = token_log_probs(model, source, mask, inputs, outputs)
        given = torch.tensor(symbols.given, dtype=torch.long, device=device)
        output_log_probs[:, 0].masked_fill_(torch.isin(outputs[:, 0], given), 0.0)
        for index, log_probs, length in zip(
            batch, output_log_probs.tolist(), real.sum(1).tolist(), strict=True
        ):
            results[index] = Hypothesis.scored(targets[index], log_probs[:length], alpha)
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

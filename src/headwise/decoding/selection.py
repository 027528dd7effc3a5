"""Candidates of a search step, and selection of the best continuations of a beam, with a fixed order of ties.

Shapes: n sentences, k hypotheses each, v vocabulary, c candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_GROUP = 64  # tokens that the first pass represents by their maximum


@dataclass(frozen=True)
class Candidates:
    """The candidate continuations of one search step, and those that stay live.

    Shapes: n sentences, m candidates each, best first, of which k stay live.

    Attributes:
        parents: index (n, m) of the beam's hypothesis that is continued.
        tokens: token (n, m) that is appended.
        token_log_probs: log-probability (n, m) of that token.
        totals: log-probability (n, m) of the continued hypothesis.
        ends: whether the candidate is a finished hypothesis (n, m).
        places: index (n, k) of the candidates that stay live.
        places_totals: log-probability (n, k) of the candidates that stay live, -inf for an empty place in the beam.
    """

    parents: Tensor
    tokens: Tensor
    token_log_probs: Tensor
    totals: Tensor
    ends: Tensor
    places: Tensor
    places_totals: Tensor


def best_continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` likeliest one-token continuations of each sentence's hypotheses, best first.

    `log_probs` (n, k, v) are the next tokens' log-probabilities and `totals` (n, k) those of the hypotheses
    so far, -inf for an empty place in the beam. Returns the log-probabilities, the indices of the continued
    hypotheses and the tokens, each (n, count). Equal values are ordered by hypothesis and then by token, lowest
    first, so the result depends on the values alone.

    Because a beam has many continuations (k·v) and few are selected, a first pass computes one maximum for every
    group of 64 tokens. The best `count` continuations lie in the best `count` groups: a continuation outside
    them has at least one better continuation in each of them.
    """
    n, k, v = log_probs.shape
    flat = log_probs.reshape(n, k * v)
    whole = v // _GROUP * _GROUP
    maxima = log_probs[..., :whole].unflatten(-1, (-1, _GROUP)).amax(-1)  # (n, k, groups)
    if whole < v:
        maxima = torch.cat([maxima, log_probs[..., whole:].amax(-1, keepdim=True)], dim=-1)
    groups = maxima.shape[-1]
    leaders = (maxima + totals[..., None]).flatten(1)  # (n, k·groups)
    # Sorted, so that candidates stay in the order of their positions, which breaks ties.
    chosen = top(leaders, min(count, k * groups)).sort(-1).values
    parents = chosen // groups  # (n, c)
    tokens = (chosen % groups * _GROUP)[..., None] + torch.arange(_GROUP, device=chosen.device)  # (n, c, 64)
    in_vocabulary = tokens < v
    position = parents[..., None] * v + tokens.clamp(max=v - 1)
    values = flat.gather(1, position.flatten(1)).view_as(position) + totals.gather(1, parents)[..., None]
    values = values.masked_fill(~in_vocabulary, -torch.inf).flatten(1)  # (n, c·64)
    # A position beyond the vocabulary may tie at -inf with a real token; its clamped position is still a token.
    best = top(values, count)
    position = position.flatten(1).gather(1, best)
    return values.gather(1, best), position // v, position % v


def top(values: Tensor, count: int) -> Tensor:
    """Return the positions (…, count) of the largest float32 values (…, m), best first, ties by position.

    NaN comes last, whatever its sign bit, so that it never displaces a hypothesis whose values are numbers.
    """
    numbers = values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    bits = (numbers + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # integers in the order of the floats
    positions = torch.arange(values.shape[-1], device=values.device)
    keys = (ordered.to(torch.int64) << 32) - positions
    return keys.topk(count, dim=-1).indices

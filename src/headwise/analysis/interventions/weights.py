"""Changes of the attention weights of one head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Maps one head's weights (batch, query, key) to new ones, with the keys that aren't masked in the same shape, of which
# some may have a weight of 0, too, and the amount.
Change = Callable[[Tensor, Tensor, float | None], Tensor]


def _silence(weights: Tensor, unmasked: Tensor, amount: float | None) -> Tensor:
    return torch.zeros_like(weights)


def _uniform(weights: Tensor, unmasked: Tensor, amount: float | None) -> Tensor:
    return unmasked / unmasked.sum(-1, keepdim=True, dtype=weights.dtype).clamp(min=1)


def _zero(weights: Tensor, unmasked: Tensor, amount: float | None) -> Tensor:
    changed = torch.zeros_like(weights) if amount is None else weights.clone()
    if amount is not None and 0 <= amount < weights.size(-1):
        changed[..., int(amount)] = 0.0
    return changed


def _sharpen(weights: Tensor, unmasked: Tensor, amount: float | None) -> Tensor:
    """Return softmax(s / amount) for weights softmax(s); masked keys, and rows in which all are, stay 0."""
    assert amount is not None
    return (weights.log() / amount).softmax(-1).nan_to_num(0.0)


def _shift(weights: Tensor, unmasked: Tensor, amount: float | None) -> Tensor:
    return _permute(weights, unmasked, lambda count: torch.arange(count).roll(-int(amount or 0)))


def _shuffle(weights: Tensor, unmasked: Tensor, amount: float | None) -> Tensor:
    return _permute(weights, unmasked, lambda count: order(count, int(amount or 0)))


def order(count: int, number: int) -> Tensor:
    """Return where each of `count` positions goes in the order with a number: a permutation that is easily stated.

    It is the order in which 1·m, 2·m, …, count·m (mod 65537) are sorted, for m = 40503·(number + 1);
    40503 / 65536 is the golden ratio's fractional part, which spreads them.
    """
    factor = 40503 * (number + 1) % 65537
    return (torch.arange(1, count + 1) * factor % 65537).argsort(stable=True)


def _permute(weights: Tensor, unmasked: Tensor, places: Callable[[int], Tensor]) -> Tensor:
    """Move the weight of each query's i-th unmasked key to its unmasked key number places(count)[i].

    They depend only on the number of unmasked keys, so that step-by-step decoding gives the same result as forced
    decoding.
    """
    moved = torch.zeros_like(weights)
    rows = (x.flatten(0, -2) for x in (weights, unmasked, moved))
    for row, seen, out in zip(*rows, strict=True):
        keys = seen.nonzero()[:, 0]
        out[keys[places(len(keys)).to(keys.device)]] = row[keys]
    return moved


CHANGES: dict[str, Change] = {
    "silence": _silence,
    "only": _silence,
    "no-scaling": _sharpen,
    "temperature": _sharpen,
    "uniform": _uniform,
    "zero": _zero,
    "shuffle": _shuffle,
    "shift": _shift,
}

"""What interventions have switched off in a model: read from the model as it computes, not from their notation."""

from __future__ import annotations

from torch import nn

from headwise.nn.layers import FeedForward, LayerNorm, Residual, RMSNorm
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions


def switched_off(trained: nn.Module, model: nn.Module) -> frozenset[str]:
    """Return the dotted names of what acts in a trained model but not in its copy with interventions.

    Normalizations, feed-forward networks, residual connections (also those that the model was trained without),
    positions inside attention, and `NAME.causal` for the causal mask of an attention. (Positions that are added to
    embeddings are in the record of the input embedding.)
    """
    now = dict(model.named_modules(remove_duplicate=False))
    off: set[str] = set()
    for name, module in trained.named_modules(remove_duplicate=False):
        if isinstance(module, LayerNorm | RMSNorm | FeedForward | AttentionPositions):
            if not isinstance(now.get(name), type(module)):
                off.add(name)
        elif isinstance(module, Residual):
            other = now[name]
            if not (isinstance(other, Residual) and other.connected):
                off.add(name)
        elif isinstance(module, MultiHeadAttention):
            other = now[name]
            if module.causal and not (isinstance(other, MultiHeadAttention) and other.causal):
                off.add(f"{name}.causal")
    return frozenset(off)

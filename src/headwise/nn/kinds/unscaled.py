"""Softmax attention without the division by √d_k: softmax(Q Kᵀ) V, dot-product attention as in section 3.2.1.

For an ablation: the variance of q·k grows with d_k, and large scores push the softmax where its gradients vanish.
"""

from __future__ import annotations

import math

from torch import Tensor

from headwise.nn.attention import Mask, attention_weights, register
from headwise.nn.dropout import dropout as drop


def unscaled_weights(q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
    """Return softmax(Q Kᵀ + bias), (batch, heads, query, key), with masked keys at exactly 0."""
    return attention_weights(q * math.sqrt(q.size(-1)), k, mask, bias)


@register("unscaled", weights=unscaled_weights, lacks={})
def unscaled(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float) -> Tensor:
    """Compute softmax(Q Kᵀ) V with dense attention weights."""
    return drop(unscaled_weights(q, k, mask, bias), dropout, training=dropout > 0) @ v

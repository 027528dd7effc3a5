"""The arithmetic of one head at one step: from q and k to the head's contribution to the sub-layer's output.

score_j = Σ_d q_d k_jd / √d_k + bias_j,  α = softmax over the unmasked keys,
head = Σ_j α_j v_j,  part = W^O[head] head,  output = Σ_heads part + bias
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.analysis.interventions import Part, attention_parts
from headwise.analysis.json_arrays import as_json
from headwise.analysis.recording import ForwardPass
from headwise.errors import ConfigError
from headwise.nn.attention import attention_kind, attention_weights
from headwise.nn.multihead import Attended, MultiHeadAttention

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class HeadArithmetic:
    """One head's arithmetic for one query and all keys; arrays are over keys unless stated otherwise.

    Attributes:
        part, layer, head, query: location, counted from 0.
        query_piece: the query's token: a source token, or the decoder's input token.
        key_pieces: the keys' tokens.
        q: (d_k,).
        k: (keys, d_k).
        terms: q_d · k_jd, (keys, d_k); each row sums to its entry in `dots`.
        dots: q · k_j.
        scale: √d_k.
        scaled: dots / scale.
        bias: position bias added to the scores; zeros if there is none.
        seen: whether the key is unmasked for the query.
        softmax: weights by the formula, 0 for masked keys.
        weights: the weights used: those of `softmax` unless an intervention changed them.
        v: (keys, d_v).
        weighted: α_j v_j, (keys, d_v).
        result: Σ_j α_j v_j, (d_v,), plus the position vectors if these are added to the values.
        part_of_output: W^O's columns of this head times `result`, (d_model,).
        output: the sub-layer's output: the sum of all heads' parts and W^O's bias, (d_model,).
    """

    part: Part
    layer: int
    head: int
    query: int
    query_piece: str
    key_pieces: tuple[str, ...]
    q: Floats
    k: Floats
    terms: Floats
    dots: Floats
    scale: float
    scaled: Floats
    bias: Floats
    seen: list[bool]
    softmax: Floats
    weights: Floats
    v: Floats
    weighted: Floats
    result: Floats
    part_of_output: Floats
    output: Floats

    def to_json(self, key: int | None = None) -> dict[str, Any]:
        """Return plain lists; with `key`, `k`, `terms`, `v` and `weighted` have only that key's row."""
        rows = slice(None) if key is None else slice(key, key + 1)
        of_rows = {name: getattr(self, name)[rows] for name in ("k", "terms", "v", "weighted")}
        return as_json(replace(self, **of_rows))


def head_arithmetic(recorded: ForwardPass, part: Part, layer: int, head: int, query: int) -> HeadArithmetic:
    """Return one head's arithmetic in a recorded forward pass.

    Raises `ConfigError` for a location that doesn't exist, and for attention that isn't multi-head scaled dot-product.
    """
    name, attention = _find_attention(recorded.trained, part, layer, head)
    attended = recorded.recording.attended[name][0]
    queries = attended.q.size(2)
    if not 0 <= query < queries:
        raise ConfigError(f"query: expected a number from 0 to {queries - 1}, found {query}")
    query_side = recorded.sides["encoder" if part == "encoder" else "decoder"]
    key_side = recorded.sides["decoder" if part == "decoder" else "encoder"]
    numbers = _numbers(attention, attended, head, query)
    return HeadArithmetic(part, layer, head, query, query_side.pieces[query], key_side.pieces, **numbers)


def has_products(attention: nn.Module) -> bool:
    """Return whether a module's heads compute softmax(QKᵀ/√d_k)V."""
    return isinstance(attention, MultiHeadAttention) and attention_kind(attention.kind).weights is attention_weights


def _find_attention(model: nn.Module, part: Part, layer: int, head: int) -> tuple[str, MultiHeadAttention]:
    """Return the attention module with its name; raises `ConfigError` if it doesn't exist, or has another formula."""
    attentions = attention_parts(model).get(part)
    if attentions is None or not 0 <= layer < len(attentions):
        raise ConfigError(f"expected a part and a layer that the model has, found {part} {layer + 1}")
    attention = attentions[layer]
    if not isinstance(attention, MultiHeadAttention):
        raise ConfigError("products: expected a Transformer's multi-head attention, found one without heads")
    if not has_products(attention):
        raise ConfigError(f"products: expected softmax(QKᵀ/√d_k) attention, found {attention.kind}")
    if not 0 <= head < attention.heads:
        raise ConfigError(f"expected a head from 1 to {attention.heads}, found {head + 1}")
    return next(name for name, module in model.named_modules() if module is attention), attention


@torch.inference_mode()
def _numbers(attention: MultiHeadAttention, attended: Attended, head: int, query: int) -> dict[str, Any]:
    q, k, v = attended.q[0, head, query].float(), attended.k[0, head].float(), attended.v[0, head].float()
    keys, scale = k.size(0), math.sqrt(k.size(1))

    def of_query(full: Tensor | None, default: float) -> Tensor:
        """Return this head's and query's row of a tensor broadcastable to (batch, heads, query, key)."""
        if full is None:
            return torch.full((keys,), default, device=k.device)
        return full.expand(*torch.broadcast_shapes(full.shape, attended.weights.shape))[0, head, query].float()

    terms = q * k  # (keys, d_k)
    dots = terms.sum(1)
    bias, unmasked = of_query(attended.bias, 0.0), of_query(attended.mask, 1.0).bool()
    scores = (dots / scale + bias).masked_fill(~unmasked, -torch.inf)
    softmax = scores.softmax(0).nan_to_num(0.0)  # a query whose keys are all masked has weights 0
    weights = attended.weights[0, head, query].float()
    result = attended.heads[0, head, query].float()
    columns = slice(head * attention.value_size, (head + 1) * attention.value_size)
    concatenated = attended.heads[:, :, query].flatten(1).float()  # (1, heads·d_v)
    numbers = {
        "q": q,
        "k": k,
        "terms": terms,
        "dots": dots,
        "scaled": dots / scale,
        "bias": bias,
        "softmax": softmax,
        "weights": weights,
        "v": v,
        "weighted": weights[:, None] * v,
        "result": result,
        "part_of_output": attention.output.weight[:, columns].float() @ result,
        "output": attention.output(concatenated)[0],
    }
    arrays = {name: tensor.float().cpu().numpy() for name, tensor in numbers.items()}
    return {"scale": scale, "seen": unmasked.tolist(), **arrays}

"""The sub-layers of `headwise.models.transformer` as ONNX nodes; x is (batch, time, d_model) in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headwise.interop.onnx.graph import Graph
from headwise.interop.onnx.positions import GraphPositions
from headwise.models.transformer import Transformer
from headwise.nn.layers import FeedForward, LayerNorm, Residual, RMSNorm
from headwise.nn.linear import Linear
from headwise.nn.multihead import MultiHeadAttention

# Added to the scores of masked keys, as in `headwise.nn.attention`.
_LOWEST = torch.finfo(torch.float32).min / 2


class Past:
    """The key/value cache of a layer: inputs past.N.keys and past.N.values, outputs present.N.keys and …values."""

    def __init__(self, graph: Graph, number: int, parent: str) -> None:
        self._graph, self._number, self._parent = graph, number, parent

    def extended(self, name: str, new: str, heads: int, size: int) -> str:
        """Return the `keys` or `values` of all positions: the past of each row's parent, then the new ones."""
        shape = ("previous rows", heads, "past", size)
        past = self._graph.input(f"past.{self._number}.{name}", "FLOAT", shape)
        joined = self._graph.op("Concat", self._graph.op("Gather", past, self._parent), new, axis=2)
        shape = ("rows", heads, "past + 1", size)
        return self._graph.output(joined, f"present.{self._number}.{name}", shape)


class Network:
    """Nodes for the sub-layers of a Transformer; `queries` (time,) are the positions of x."""

    def __init__(self, graph: Graph, model: Transformer, queries: str) -> None:
        self._graph, self._op, self._model = graph, graph.op, model
        self._positions = GraphPositions(graph, queries, model.config)

    def embed(self, table: str, tokens: str) -> str:
        """Return √d_model E + PE of tokens (batch, time), for the embeddings E (size, d_model)."""
        embedding = self._model.positions
        x = self._op("Mul", self._op("Gather", table, tokens), embedding.scale)
        return self._positions.add(x, embedding.table)

    def padding(self, mask: str) -> str:
        """Return what is added to the scores, (batch, 1, 1, key), for a mask (batch, key), True = real token."""
        return self._op("Unsqueeze", self._op("Where", mask, 0.0, _LOWEST), [1, 2])

    def residual(self, around: Residual, x: str, sub_layer: Callable[[str], str]) -> str:
        """Return a sub-layer's result inside its residual connection."""
        x = self._op("Add", x, sub_layer(self.norm(around.norm, x) if around.pre else x))
        return x if around.pre else self.norm(around.norm, x)

    def norm(self, norm: nn.Module, x: str) -> str:
        """Normalize over d_model."""
        if isinstance(norm, LayerNorm):
            return self._op("LayerNormalization", x, norm.weight, norm.bias, epsilon=norm.eps)
        if isinstance(norm, RMSNorm):
            assert norm.weight is not None
            assert norm.eps is not None
            mean = self._op("ReduceMean", self._op("Mul", x, x), [-1])
            return self._op("Mul", self._op("Div", x, self._op("Sqrt", self._op("Add", mean, norm.eps))), norm.weight)
        assert isinstance(norm, nn.Identity), norm
        return x

    def feed_forward(self, layer: FeedForward, x: str) -> str:
        """Apply the feed-forward network."""
        hidden = self._activate(self._linear(x, layer.w1))
        if layer.gate is not None:
            hidden = self._op("Mul", hidden, self._linear(x, layer.gate))
        return self._linear(hidden, layer.w2)

    def self_attention(
        self, layer: MultiHeadAttention, x: str, padding: str | None = None, past: Past | None = None
    ) -> str:
        """Attend from x to x and to past positions, of which no key is later than a query's position."""
        q, k, v = self.project(layer, x, layer.query, layer.key, layer.value)
        q, k = self._positions.rotate(layer.positions, q), self._positions.rotate(layer.positions, k)
        if past is not None:
            k = past.extended("keys", k, layer.key_value_heads, layer.key_size)
            v = past.extended("values", v, layer.key_value_heads, layer.value_size)
        q = self._op("Mul", q, layer.key_size**-0.5)
        bias = self._positions.bias(layer, q)
        weights = self._weights(layer, q, k, padding, bias)
        out = self._op("MatMul", weights, self._shared(layer, v, layer.value_size))
        return self._join(layer, self._positions.add_to_values(layer.positions, out, weights))

    def cross_attention(self, layer: MultiHeadAttention, x: str, memory: Sequence[str], padding: str) -> str:
        """Attend from x (rows, 1, d_model) to keys and values (sentences, heads, source, d_k and d_v).

        The beams of a sentence are queries over its single memory.
        """
        width = self._model.config.d_model
        sentences = self._op("Shape", padding, end=1)
        queries = self._op("Reshape", x, self._op("Concat", sentences, [-1, width], axis=0))
        (q,) = self.project(layer, queries, layer.query)
        keys, values = memory
        weights = self._weights(layer, self._op("Mul", q, layer.key_size**-0.5), keys, padding)
        out = self._op("MatMul", weights, self._shared(layer, values, layer.value_size))
        return self._op("Reshape", self._join(layer, out), [-1, 1, width])

    def project(self, layer: MultiHeadAttention, x: str, *maps: Linear) -> list[str]:
        """Apply several linear maps as one matrix product; return heads (batch, heads, time, d_k or d_v)."""
        joined = self._linear(x, *maps)
        sizes = [each.out_features for each in maps]
        parts = [joined] if len(maps) == 1 else self._graph.ops("Split", len(maps), joined, sizes, axis=-1)
        return [
            self._op("Transpose", self._op("Reshape", part, [0, 0, -1, size]), perm=[0, 2, 1, 3])
            for part, size in zip(
                parts, (layer.value_size if m is layer.value else layer.key_size for m in maps), strict=True
            )
        ]

    def logits(self, hidden: str, weight: str) -> str:
        """Return the logits (rows, target_size) of hidden states (rows, d_model)."""
        bias = [] if self._model.output_bias is None else [self._model.output_bias]
        return self._op("Gemm", hidden, weight, *bias, transB=1)

    def _activate(self, x: str) -> str:
        kind = self._model.config.activation
        if kind == "relu":
            return self._op("Relu", x)
        if kind == "silu":
            return self._op("Mul", x, self._op("Sigmoid", x))
        return self._op("Gelu", x, approximate="tanh" if kind == "gelu_tanh" else "none")

    def _linear(self, x: str, *maps: Linear) -> str:
        product = self._op("MatMul", x, torch.cat([each.weight for each in maps]).t())
        biases: list[Tensor] = [each.bias for each in maps if each.bias is not None]
        return self._op("Add", product, torch.cat(biases)) if biases else product

    def _weights(self, layer: MultiHeadAttention, q: str, k: str, *added: str | None) -> str:
        """Return the attention weights (batch, heads, query, key) of scaled queries."""
        keys = self._shared(layer, k, layer.key_size)
        scores = self._op("MatMul", q, self._op("Transpose", keys, perm=[0, 1, 3, 2]))
        for each in added:
            scores = scores if each is None else self._op("Add", scores, each)
        return self._op("Softmax", scores, axis=-1)

    def _shared(self, layer: MultiHeadAttention, part: str, size: int) -> str:
        """Repeat keys or values (batch, key/value heads, key, size) for the query heads that share them."""
        group = layer.heads // layer.key_value_heads
        if group == 1:
            return part
        repeated = self._op("Expand", self._op("Unsqueeze", part, [2]), [1, 1, group, 1, 1])
        return self._op("Reshape", repeated, [0, layer.heads, -1, size])

    def _join(self, layer: MultiHeadAttention, out: str) -> str:
        joined = self._op("Transpose", out, perm=[0, 2, 1, 3])
        return self._linear(self._op("Reshape", joined, [0, 0, -1]), layer.output)

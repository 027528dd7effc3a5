"""The position encodings of `headwise.nn` as ONNX nodes."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from headwise.config import ModelConfig
from headwise.interop.onnx.graph import Graph
from headwise.nn.attention_positions import ALiBi, Relative, Rotary, T5Buckets
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions

EXPRESSIBLE = ("sinusoidal", "learned", "none", "rotary", "alibi", "t5", "relative")


class GraphPositions:
    """Positions of the queries of a graph, (query,) int64; they are the last of all positions.

    What layers share is computed once.
    """

    def __init__(self, graph: Graph, queries: str, config: ModelConfig) -> None:
        self._graph, self._queries = graph, queries
        self._length = config.max_length
        self._shared: dict[AttentionPositions, list[str]] = {}

    def add(self, x: str, table: Tensor | None) -> str:
        """Add the rows of a table (max_length, d_model) to x (batch, query, d_model)."""
        if table is None:
            return x
        return self._graph.op("Add", x, self._graph.op("Gather", table, self._queries))

    def rotate(self, positions: AttentionPositions | None, x: str) -> str:
        """Rotate queries or keys (batch, heads, query, d_k) if the encoding is rotary.

        All first coordinates of the pairs come before all second ones, in queries as in keys, whose product is the
        same in any order.
        """
        if not isinstance(positions, Rotary):
            return x
        op = self._graph.op
        if positions not in self._shared:
            angle = positions.angles(0, self._length)
            tables = (angle.cos().float(), angle.sin().float())  # (max_length, d_k / 2)
            self._shared[positions] = [op("Gather", table, self._queries) for table in tables]
        cosine, sine = self._shared[positions]
        if positions.halves:
            first, second = self._graph.ops("Split", 2, x, axis=-1, num_outputs=2)
        else:
            end = torch.iinfo(torch.int64).max
            first, second = (op("Slice", x, [start], [end], [-1], [2]) for start in (0, 1))
        turned = (
            op("Sub", op("Mul", first, cosine), op("Mul", second, sine)),
            op("Add", op("Mul", first, sine), op("Mul", second, cosine)),
        )
        return op("Concat", *turned, axis=-1)

    def bias(self, attention: MultiHeadAttention, q: str) -> str | None:
        """Return the bias on the scores, broadcastable to (batch, heads, query, key), if the encoding has one.

        q (batch, heads, query, d_k) is scaled by 1 / √d_k.
        """
        positions, op = attention.positions, self._graph.op
        if isinstance(positions, Relative):
            vectors = self._vectors(positions.keys, positions.reach)
            heads = "h" if len(positions.keys) > 1 else ""
            return op("Einsum", q, vectors, equation=f"bhqd,{heads}qkd->bhqk")
        if not isinstance(positions, ALiBi | T5Buckets):
            return None
        if positions not in self._shared:
            query = torch.zeros(1, attention.heads, 1, attention.key_size)
            relative = positions.bias(query, self._length)
            table = relative.table[0, :, 0]  # (heads, distance)
            self._shared[positions] = [op("Gather", table, self._index(relative.reach), axis=1)]
        return self._shared[positions][0]  # (heads, query, key)

    def add_to_values(self, positions: AttentionPositions | None, out: str, weights: str) -> str:
        """Add the vectors of Shaw et al. 2018 to the attention's output (batch, heads, query, d_v)."""
        if not isinstance(positions, Relative) or positions.added is None:
            return out
        vectors = self._vectors(positions.added, positions.reach)
        heads = "h" if len(positions.added) > 1 else ""
        added = self._graph.op("Einsum", weights, vectors, equation=f"bhqk,{heads}qkd->bhqd")
        return self._graph.op("Add", out, added)

    def _vectors(self, table: Tensor, reach: int) -> str:
        """Return the vectors of a table (heads or 1, distance, d), (heads, query, key, d), or without heads."""
        table = table[0] if len(table) == 1 else table
        return self._graph.op("Gather", table, self._index(reach), axis=table.dim() - 2)

    def _index(self, reach: int) -> str:
        """Return the index (query, key) of the distances in a table of the distances -reach … reach."""
        op = self._graph.op
        clipped = op("Min", op("Max", self._distances, -reach), reach)
        return op("Add", clipped, reach)

    @cached_property
    def _distances(self) -> str:
        """The distance of each key from each query, (query, key)."""
        op = self._graph.op
        keys = op("Range", 0, op("Add", op("Gather", self._queries, -1), 1), 1)
        return op("Sub", keys, op("Unsqueeze", self._queries, [1]))

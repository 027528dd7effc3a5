"""Semantic similarity: whether a head attends to tokens whose embeddings are similar to the query's, beyond position.

The measure is the partial correlation of the attention weight from query to key with the cosine similarity of their
input embeddings, given the offset key - query: the mean of each offset is subtracted from both. A weight is multiplied
by the number of keys that the query may see, so that uniform attention is 1 in texts of any length. Its baseline is
the largest such correlation under permutations of the embeddings among the tokens of the text, which keep positions,
frequencies and repetitions.

Shapes: L layers, H heads, n tokens, P pairs of different positions, K permutations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 50  # a head without the role exceeds them all with probability 1 / 51
REACH = 2048  # largest offset between query and key; tokens of a sentence, at most


class SimilarityCounts:
    """Accumulator over sentences; `add` takes one at a time."""

    def __init__(self, embeddings: NDArray[np.float32], seen: Iterable[int], *, causal: bool = False) -> None:
        """Use embeddings (vocabulary, d_model); `seen` are the ids of the text, whose embeddings are permuted."""
        ids = np.array(sorted(set(seen)), np.int64)
        norms = np.linalg.norm(embeddings[ids], axis=1, keepdims=True)
        self.causal = causal
        self._unit = embeddings[ids] / np.maximum(norms, 1e-12)
        self._row = np.zeros(len(embeddings), np.int64)
        self._row[ids] = np.arange(len(ids))
        generator = np.random.default_rng(0)
        orders = [np.arange(len(ids)), *(generator.permutation(len(ids)) for _ in range(PERMUTATIONS))]
        self._orders = np.stack(orders)  # (1 + K, ids)
        self.pairs = 0
        self._shape: tuple[int, int] = (0, 0)
        self._counts = np.zeros(2 * REACH + 1)
        self._cosines = np.zeros((2 * REACH + 1, 1 + PERMUTATIONS))  # sums by offset
        self._weights: NDArray[np.float64] | None = None  # sums by offset, (offsets, L H)
        self._cosine_squares = np.zeros(1 + PERMUTATIONS)
        self._weight_squares: NDArray[np.float64] | float = 0.0  # (L H,)
        self._products: NDArray[np.float64] | float = 0.0  # (L H, 1 + K)

    def add(self, weights: NDArray[np.float32], ids: Sequence[int]) -> None:
        """Add one sentence: weights (L, H, n, n) over its tokens without symbols, and their ids."""
        n = len(ids)
        assert n <= REACH
        allowed = ~np.eye(n, dtype=np.bool_)
        query, key = np.nonzero(np.tril(allowed) if self.causal else allowed)
        self._shape = weights.shape[:2]
        visible = query + 1 if self.causal else n
        scaled = weights[:, :, query, key].reshape(math.prod(self._shape), -1).astype(np.float64) * visible  # (L H, P)
        vectors = self._unit[self._orders[:, self._row[np.asarray(ids, np.int64)]]]  # (1 + K, n, d_model)
        cosines = (vectors @ vectors.swapaxes(1, 2))[:, query, key].astype(np.float64)  # (1 + K, P)
        if self._weights is None:
            self._weights = np.zeros((2 * REACH + 1, len(scaled)))
        offsets = key - query + REACH
        np.add.at(self._counts, offsets, 1)
        np.add.at(self._cosines, offsets, cosines.T)
        np.add.at(self._weights, offsets, scaled.T)
        self._cosine_squares += (cosines**2).sum(1)
        self._weight_squares = self._weight_squares + (scaled**2).sum(1)
        self._products = self._products + scaled @ cosines.T
        self.pairs += len(query)

    def correlations(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the correlation of each head, and the largest one under permutations, both (L, H); None without pairs.

        A head whose weights depend on the offset alone has 0.
        """
        if self._weights is None or self.pairs == 0:
            return None
        used = self._counts > 0
        weights, cosines = self._weights[used], self._cosines[used]
        means = weights / self._counts[used, None]
        shared = self._products - means.T @ cosines  # (L H, 1 + K)
        weight_spread = self._weight_squares - (means * weights).sum(0)
        cosine_spread = self._cosine_squares - (cosines**2 / self._counts[used, None]).sum(0)
        spread = np.outer(weight_spread, cosine_spread)
        rounding = 1e-9 * np.outer(self._weight_squares, self._cosine_squares)
        found = np.where(spread > rounding, shared / np.sqrt(np.maximum(spread, 1e-300)), 0.0)
        return found[:, 0].reshape(self._shape), found[:, 1:].max(1).reshape(self._shape)

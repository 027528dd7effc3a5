"""Reference Transformer in float64 NumPy with every option of the configuration, one sentence at a time.

The paper's own model is `headwise.learn.from_scratch`; this file adds what the configuration has beyond it: attention
kinds, position encodings, activations, normalization. Written for readability, not for speed: no batches, no padding,
no key/value cache, and full attention matrices. It uses none of Headwise's tensor code, only the names of its weights.

Shapes: a sequence is (time, d_model), one head's queries, keys and values (time, d_k) or (time, d_v).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config import ModelConfig  # pydantic only: the hyperparameters
from headwise.learn.from_scratch import Transformer, layer_norm, linear, positional_encoding, softmax

Array = NDArray[np.float64]
Pairs = NDArray[np.bool_]  # (query, key), True = may attend


class Oracle(Transformer):
    """The model with the given weights, named as in its state_dict, and the given configuration."""

    def __init__(self, weights: Mapping[str, Array], config: ModelConfig) -> None:
        super().__init__(weights, config.encoder_layers, config.decoder_layers, config.heads, config.norm)
        self.config = config

    def layer_norm(self, name: str, x: Array) -> Array:
        """Normalize by √(variance + ε) (Ba et al. 2016), or by √(mean x² + ε) (Zhang & Sennrich 2019)."""
        gain, epsilon = self.weights[f"{name}.weight"], self.config.norm_epsilon
        if self.config.normalization == "rms":
            return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * gain
        return layer_norm(x, self.part(name), epsilon)

    def self_attention(self, name: str, x: Array, mask: Pairs) -> Array:
        """MultiHead(x, x, x), with the position encoding inside attention if it is of that kind."""
        kind, causal = self.config.attention, name.startswith("decoder")
        if kind == "state_space":
            return self.state_space(name, x, mask, causal=causal)
        pairs = mask & allowed_pairs(self.config, kind, len(x), len(x))
        return self.multi_head(name, x, x, kind, pairs, positions=self.config.positions, causal=causal)

    def cross_attention(self, name: str, x: Array, memory: Array, mask: Pairs) -> Array:
        """MultiHead(x, memory, memory)."""
        kind = self.config.cross_attention or self.config.attention
        pairs = allowed_pairs(self.config, kind, len(x), len(memory))
        return self.multi_head(name, x, memory, kind, pairs & mask)

    def multi_head(
        self,
        name: str,
        x: Array,
        memory: Array,
        kind: str,
        pairs: Pairs,
        positions: str = "none",
        causal: bool = False,
    ) -> Array:
        """Concat(head_1, …, head_h) W^O, where h / key_value_heads heads share a key and value head."""
        config = self.config
        shared = config.key_value_heads or config.heads
        w = self.part(name)
        queries = np.split(linear(x, w, "query"), config.heads, axis=-1)
        keys = np.split(linear(memory, w, "key"), shared, axis=-1)
        values = np.split(linear(memory, w, "value"), shared, axis=-1)
        heads = []
        for h, q in enumerate(queries):
            group = h * shared // config.heads
            k, v = keys[group], values[group]
            if positions == "rotary":
                q, k = rotate(config, q), rotate(config, k)
            if kind == "linear":
                weights = linear_weights(q, k, pairs)
            else:
                bias = self.position_bias(f"{name}.positions", positions, h, q, len(k), causal)
                scale = 1.0 if kind == "unscaled" else math.sqrt(config.key_size)
                scores = q @ k.T / scale + bias
                weights = softmax(np.where(pairs, scores, -np.inf))
            heads.append(weights @ v + self.position_values(f"{name}.positions", positions, h, weights))
        return linear(np.concatenate(heads, axis=-1), w, "output")

    # Section 3.3: position-wise feed-forward

    def feed_forward(self, name: str, x: Array) -> Array:
        """max(0, x W₁ + b₁) W₂ + b₂, or another activation instead of max(0, ·), optionally gated."""
        w = self.part(name)
        hidden = ACTIVATIONS[self.config.activation](linear(x, w, "w1"))
        if self.config.gated:
            hidden = hidden * linear(x, w, "gate")
        return linear(hidden, w, "w2")

    # Section 3.4: embeddings

    def embed(self, name: str, tokens: Sequence[int]) -> Array:
        """Embeddings · √d_model, plus the position encoding if it is added to embeddings."""
        scale = math.sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0
        x = self.weights[name][list(tokens)] * scale
        if self.config.positions in TABLES:
            x = x + TABLES[self.config.positions](len(tokens), self.config.d_model)
        if self.config.positions == "learned":
            x = x + self.weights["positions.table"][: len(tokens)]
        return x

    # Positions inside attention

    def position_bias(self, name: str, positions: str, head: int, q: Array, keys: int, causal: bool) -> Array:
        """Return the bias that is added to the scores of a head, (query, key)."""
        config = self.config
        assert positions in {*TABLES, "learned", "none", "rotary", "alibi", "t5", "relative"}, positions
        distance = np.arange(keys) - np.arange(len(q))[:, None]  # j - i
        if positions == "alibi":
            return -alibi_slope(head, config.heads) * np.abs(distance)
        if positions == "t5":
            table = self.weights[f"{name}.table"]
            buckets = config.position_options.t5.buckets
            reach = config.position_options.t5.reach
            return np.array([[table[t5_bucket(d, causal, buckets, reach), head] for d in row] for row in distance])
        if positions == "relative":  # Shaw et al. 2018, equation 4: q_i (a^K_ij)ᵀ / √d_k
            added = self.relative_vectors(f"{name}.keys", head, distance)
            return np.einsum("id,ijd->ij", q, added) / math.sqrt(config.key_size)
        return np.zeros(distance.shape)

    def position_values(self, name: str, positions: str, head: int, weights: Array) -> Array:
        """Shaw et al. 2018, equation 3: Σ_j α_ij a^V_ij, (query, d_v)."""
        if positions != "relative" or not self.config.position_options.relative.values:
            return np.zeros((len(weights), self.config.value_size))
        distance = np.arange(weights.shape[1]) - np.arange(len(weights))[:, None]
        return np.einsum("ij,ijd->id", weights, self.relative_vectors(f"{name}.added", head, distance))

    def relative_vectors(self, name: str, head: int, distance: NDArray[np.int64]) -> Array:
        """Look up a_ij = w_clip(j - i, -k, k), (query, key, d)."""
        reach = self.config.position_options.relative.reach
        tables = self.weights[name]  # (heads or 1, 2k + 1, d)
        return tables[head % len(tables)][np.clip(distance, -reach, reach) + reach]

    # Gu et al. 2022, "On the Parameterization and Initialization of Diagonal State Space Models" (S4D)

    def state_space(self, name: str, x: Array, mask: Pairs, *, causal: bool) -> Array:
        """GLU(W gelu(y)), where each channel of y is its own recurrence over that channel of x."""
        inputs = x if causal else x * mask[0][:, None]
        y = self.weights[f"{name}.skip"] * inputs
        for direction, order in enumerate([slice(None)] if causal else [slice(None), slice(None, None, -1)]):
            step, decay, frequency, readout = (
                self.weights[f"{name}.{part}"][direction] for part in ("log_step", "log_decay", "frequency", "readout")
            )
            a = -np.exp(decay) + 1j * frequency  # (channels, states)
            a_bar = np.exp(np.exp(step)[:, None] * a)  # zero-order hold
            b_bar = (a_bar - 1) / a
            c = readout[..., 0] + 1j * readout[..., 1]
            state = np.zeros_like(a)
            outputs = []
            for u in inputs[order]:
                state = a_bar * state + b_bar * u[:, None]
                outputs.append(2 * (c * state).sum(axis=-1).real)  # the sum of a state and its conjugate
            y = y + np.array(outputs).reshape(y.shape)[order]
        value, gate = np.split(linear(gelu(y), self.part(name), "output"), 2, axis=-1)
        return value / (1 + np.exp(-gate))


def oracle_of(model: torch.nn.Module, config: ModelConfig) -> Oracle:
    """Return the oracle with the parameters of a Transformer."""
    return Oracle({name: x.detach().double().numpy() for name, x in model.state_dict().items()}, config)


# Other kinds of attention


def linear_weights(q: Array, k: Array, pairs: Pairs) -> Array:
    """φ(q_i) φ(k_j)ᵀ / Σ_j φ(q_i) φ(k_j)ᵀ with φ = elu + 1 (Katharopoulos et al. 2020, equation 7)."""
    products = (elu(q) + 1) @ (elu(k) + 1).T * pairs
    total = products.sum(axis=-1, keepdims=True)
    return products / np.where(total == 0, 1.0, total)


def allowed_pairs(config: ModelConfig, kind: str, queries: int, keys: int) -> Pairs:
    """Return for every pair whether query i may attend to key j in an attention kind, (query, key)."""
    full = {"reference", "fused", "memory_efficient", "unscaled"}
    assert kind in {*full, "window", "block_sparse", "linear"}, kind
    i, j = np.arange(queries)[:, None], np.arange(keys)
    pairs = np.ones((queries, keys), dtype=bool)
    if kind == "window":  # Beltagy et al. 2020
        window = config.attention_options.window
        pairs = (np.abs(i - j) < window.size) | (i < window.globals) | (j < window.globals)
    if kind == "block_sparse":  # Child et al. 2019
        sparse = config.attention_options.block_sparse
        pairs = (np.abs(i - j) < sparse.local) | ((i - j) % sparse.stride == 0)
    return pairs


# Section 3.5: positions


def halved_sinusoids(length: int, d_model: int, start: int = 0) -> Array:
    """All sines, then all cosines; the wavelengths are a geometric progression from 2π to 10000 · 2π, both included.

    tensor2tensor counts positions from 0, fairseq from 2.
    """
    wavelengths = 2 * math.pi * np.geomspace(1, 10000, d_model // 2)
    angles = 2 * math.pi * np.arange(start, start + length)[:, None] / wavelengths
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


TABLES: dict[str, Callable[[int, int], Array]] = {
    "sinusoidal": positional_encoding,
    "tensor2tensor": halved_sinusoids,
    "fairseq": lambda length, d_model: halved_sinusoids(length, d_model, start=2),
}


def rotate(config: ModelConfig, x: Array) -> Array:
    """Rotate pair i at position m by the angle m · base^(-2i/d_k), as complex numbers (Su et al. 2021, section 3.2)."""
    options, half = config.position_options.rotary, x.shape[1] // 2
    angle = np.arange(len(x))[:, None] * options.base ** (-2 * np.arange(half) / x.shape[1])
    halves = options.pairs == "halves"
    real, imaginary = (x[:, :half], x[:, half:]) if halves else (x[:, 0::2], x[:, 1::2])
    rotated = (real + 1j * imaginary) * np.exp(1j * angle)
    parts = (rotated.real, rotated.imag)
    return np.concatenate(parts, axis=1) if halves else np.stack(parts, axis=2).reshape(x.shape)


def alibi_slope(head: int, heads: int) -> float:
    """2^(-8(h+1)/n) for n heads, n a power of two; else also every second slope of 2n heads (Press et al. 2022)."""
    n = max(n for n in (2**e for e in range(heads)) if n <= heads)
    return 2 ** (-8 * (head + 1) / n) if head < n else 2 ** (-4 * (2 * (head - n) + 1) / n)


def t5_bucket(distance: int, causal: bool, buckets: int, reach: int) -> int:
    """Return the bucket of j - i (Raffel et al. 2020, section 2.1), computed in integers.

    Of the n buckets of a direction, half hold one distance each; bucket n/2 + m begins where the distance reaches
    n/2 · (reach / (n/2))^(m / (n/2)).
    """
    n = buckets if causal else buckets // 2
    offset = n if distance > 0 and not causal else 0
    length, single = (max(-distance, 0) if causal else abs(distance)), n // 2
    if length < single:
        return offset + int(length)
    begun = (int(length) ** single >= single ** (single - m) * reach**m for m in range(1, single))
    return offset + single + sum(begun)


# Elementary functions


def elu(x: Array) -> Array:
    """x where positive, e^x - 1 elsewhere."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def gelu(x: Array) -> Array:
    """x Φ(x) with the normal distribution's Φ."""
    return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}

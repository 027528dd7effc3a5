"""Reference Transformer in float64 NumPy, one sentence at a time, in the order of "Attention Is All You Need".

Written for readability, not for speed: no batches, no padding, no key/value cache, and full attention matrices.
`Oracle(weights, config).log_probabilities(source, target)` is the whole model; each of its steps is a function
with the paper's name. It uses none of Headwise's tensor code, only the names of its weights.

Shapes: a sequence is (time, d_model), one head's queries, keys and values (time, d_k) or (time, d_v).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig  # pydantic only: the hyperparameters

Array = NDArray[np.float64]
Pairs = NDArray[np.bool_]  # (query, key), True = may attend


# Section 3.1: the stacks


@dataclass(frozen=True)
class Oracle:
    """The model with the given weights, named as in its state_dict."""

    weights: Mapping[str, Array]
    config: ModelConfig

    def log_probabilities(
        self, source: Sequence[int], target: Sequence[int], seen: Sequence[bool] | None = None
    ) -> Array:
        """Return log P(next token | source, target tokens so far), shape (target, vocabulary).

        `seen` is the mask of the source tokens that may be attended to, by default all.
        """
        memory = self.encode(source, seen)
        hidden = self.decode(target, memory, seen)
        return log_softmax(hidden @ self.output_weight().T + self.weights.get("logit_bias", 0.0))

    def encode(self, source: Sequence[int], seen: Sequence[bool] | None = None) -> Array:
        """Each layer: self-attention, then feed-forward (section 3.1, "Encoder")."""
        x = self.embed("source_embedding.weight", source)
        for i in range(self.config.encoder_layers):
            layer = f"encoder.{i}"
            x = self.residual(
                f"{layer}.around_attention",
                x,
                lambda y, layer=layer: self.self_attention(f"{layer}.self_attention", y, seen, causal=False),
            )
            x = self.residual(
                f"{layer}.around_feed_forward",
                x,
                lambda y, layer=layer: self.feed_forward(f"{layer}.feed_forward", y),
            )
        return self.last_norm("encoder_norm", x)

    def decode(self, target: Sequence[int], memory: Array, seen: Sequence[bool] | None = None) -> Array:
        """Each layer: self-attention to earlier positions, attention to the memory, feed-forward ("Decoder")."""
        x = self.embed(self.target_embedding(), target)
        for i in range(self.config.decoder_layers):
            layer = f"decoder.{i}"
            x = self.residual(
                f"{layer}.around_self_attention",
                x,
                lambda y, layer=layer: self.self_attention(f"{layer}.self_attention", y, None, causal=True),
            )
            x = self.residual(
                f"{layer}.around_cross_attention",
                x,
                lambda y, layer=layer: self.cross_attention(f"{layer}.cross_attention", y, memory, seen),
            )
            x = self.residual(
                f"{layer}.around_feed_forward",
                x,
                lambda y, layer=layer: self.feed_forward(f"{layer}.feed_forward", y),
            )
        return self.last_norm("decoder_norm", x)

    def residual(self, name: str, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        """LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) with pre-norm."""
        if self.config.norm == "pre":
            return x + sublayer(self.layer_norm(f"{name}.norm", x))
        return self.layer_norm(f"{name}.norm", x + sublayer(x))

    def layer_norm(self, name: str, x: Array) -> Array:
        """(x - mean) / √(variance + ε) · gain + bias (Ba et al. 2016); RMSNorm leaves out the mean and the bias."""
        if self.config.normalization == "rms":
            size = np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.config.norm_epsilon)
            return x / size * self.weights[f"{name}.weight"]
        centered = x - x.mean(axis=-1, keepdims=True)
        variance = (centered**2).mean(axis=-1, keepdims=True)
        return (
            centered / np.sqrt(variance + self.config.norm_epsilon) * self.weights[f"{name}.weight"]
            + self.weights[f"{name}.bias"]
        )

    def last_norm(self, name: str, x: Array) -> Array:
        """Normalize the output of a stack, by default with pre-norm only."""
        normalize = self.config.norm == "pre" if self.config.final_norm is None else self.config.final_norm
        return self.layer_norm(name, x) if normalize else x

    # Section 3.2.2: multi-head attention

    def self_attention(self, name: str, x: Array, seen: Sequence[bool] | None, *, causal: bool) -> Array:
        """MultiHead(x, x, x), with the position encoding inside attention if it is of that kind."""
        kind = self.config.attention
        if kind == "state_space":
            return self.state_space(name, x, seen, causal=causal)
        pairs = allowed_pairs(self.config, kind, len(x), len(x), causal=causal) & visible(seen, len(x))
        return self.multi_head(name, x, x, kind, pairs, positions=self.config.positions, causal=causal)

    def cross_attention(self, name: str, x: Array, memory: Array, seen: Sequence[bool] | None) -> Array:
        """MultiHead(x, memory, memory)."""
        kind = self.config.cross_attention or self.config.attention
        pairs = allowed_pairs(self.config, kind, len(x), len(memory), causal=False)
        return self.multi_head(name, x, memory, kind, pairs & visible(seen, len(memory)))

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
        queries = np.split(self.linear(f"{name}.query", x), config.heads, axis=-1)
        keys = np.split(self.linear(f"{name}.key", memory), shared, axis=-1)
        values = np.split(self.linear(f"{name}.value", memory), shared, axis=-1)
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
                weights = softmax(q @ k.T / math.sqrt(config.key_size) + bias, pairs)
            heads.append(weights @ v + self.position_values(f"{name}.positions", positions, h, weights))
        return self.linear(f"{name}.output", np.concatenate(heads, axis=-1))

    def linear(self, name: str, x: Array) -> Array:
        """x Wᵀ + b, or x Wᵀ where there is no bias."""
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    # Section 3.3: position-wise feed-forward

    def feed_forward(self, name: str, x: Array) -> Array:
        """max(0, x W₁ + b₁) W₂ + b₂, or another activation instead of max(0, ·), optionally gated."""
        hidden = ACTIVATIONS[self.config.activation](self.linear(f"{name}.w1", x))
        if self.config.gated:
            hidden = hidden * self.linear(f"{name}.gate", x)
        return self.linear(f"{name}.w2", hidden)

    # Section 3.4: embeddings and softmax

    def embed(self, name: str, tokens: Sequence[int]) -> Array:
        """Embeddings · √d_model, plus the position encoding if it is added to embeddings."""
        scale = math.sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0
        x = self.weights[name][list(tokens)] * scale
        if self.config.positions in TABLES:
            x = x + TABLES[self.config.positions](len(tokens), self.config.d_model)
        if self.config.positions == "learned":
            x = x + self.weights["positions.table"][: len(tokens)]
        return x

    def target_embedding(self) -> str:
        """Return the name of the target embedding, which is the source embedding where all are shared."""
        return ("source" if self.config.share_embeddings == "all" else "target") + "_embedding.weight"

    def output_weight(self) -> Array:
        """Return the pre-softmax weight, which is the target embedding unless nothing is shared."""
        own = self.config.share_embeddings == "none"
        return self.weights["output_projection.weight" if own else self.target_embedding()]

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
            return np.array(
                [[table[t5_bucket(d, causal, buckets, reach), head] for d in row] for row in distance]
            )
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

    def state_space(self, name: str, x: Array, seen: Sequence[bool] | None, *, causal: bool) -> Array:
        """GLU(W gelu(y)), where each channel of y is its own recurrence over that channel of x."""
        inputs = x * visible(seen, len(x))[0][:, None]
        y = self.weights[f"{name}.skip"] * inputs
        for direction, order in enumerate([slice(None)] if causal else [slice(None), slice(None, None, -1)]):
            step, decay, frequency, readout = (
                self.weights[f"{name}.{part}"][direction]
                for part in ("log_step", "log_decay", "frequency", "readout")
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
        value, gate = np.split(self.linear(f"{name}.output", gelu(y)), 2, axis=-1)
        return value / (1 + np.exp(-gate))


# Section 3.2.1: scaled dot-product attention


def softmax(scores: Array, pairs: Pairs) -> Array:
    """exp(s_ij) / Σ_j exp(s_ij) over the allowed pairs of each row; a row without allowed pairs is zero."""
    weights = np.zeros(scores.shape)
    for i, allowed in enumerate(pairs):
        if allowed.any():
            numerators = np.exp(scores[i, allowed] - scores[i, allowed].max())
            weights[i, allowed] = numerators / numerators.sum()
    return weights


def linear_weights(q: Array, k: Array, pairs: Pairs) -> Array:
    """φ(q_i) φ(k_j)ᵀ / Σ_j φ(q_i) φ(k_j)ᵀ with φ = elu + 1 (Katharopoulos et al. 2020, equation 7)."""
    products = (elu(q) + 1) @ (elu(k) + 1).T * pairs
    total = products.sum(axis=-1, keepdims=True)
    return products / np.where(total == 0, 1.0, total)


def allowed_pairs(config: ModelConfig, kind: str, queries: int, keys: int, *, causal: bool) -> Pairs:
    """Return for every pair whether query i may attend to key j in an attention kind, (query, key)."""
    assert kind in {"reference", "fused", "memory_efficient", "window", "block_sparse", "linear"}, kind
    i, j = np.arange(queries)[:, None], np.arange(keys)
    pairs = np.ones((queries, keys), dtype=bool)
    if kind == "window":  # Beltagy et al. 2020
        window = config.attention_options.window
        pairs = (np.abs(i - j) < window.size) | (i < window.globals) | (j < window.globals)
    if kind == "block_sparse":  # Child et al. 2019
        sparse = config.attention_options.block_sparse
        pairs = (np.abs(i - j) < sparse.local) | ((i - j) % sparse.stride == 0)
    return pairs & (j <= i) if causal else pairs


def visible(seen: Sequence[bool] | None, keys: int) -> Pairs:
    """Return for every key whether it may be attended to, (1, key)."""
    return np.ones((1, keys), dtype=bool) if seen is None else np.array(seen, dtype=bool)[None]


def log_softmax(logits: Array) -> Array:
    """x - log Σ exp(x)."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


# Section 3.5: positions


def sinusoids(length: int, d_model: int) -> Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same."""
    table = np.empty((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def halved_sinusoids(length: int, d_model: int, start: int = 0) -> Array:
    """All sines, then all cosines; the wavelengths are a geometric progression from 2π to 10000 · 2π, both included.

    tensor2tensor counts positions from 0, fairseq from 2.
    """
    wavelengths = 2 * math.pi * np.geomspace(1, 10000, d_model // 2)
    angles = 2 * math.pi * np.arange(start, start + length)[:, None] / wavelengths
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


TABLES: dict[str, Callable[[int, int], Array]] = {
    "sinusoidal": sinusoids,
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

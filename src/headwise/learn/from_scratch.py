"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) in NumPy, in the paper's order.

This file is for reading beside the paper. It computes what a trained run computes: the forward pass, the loss and
greedy decoding, one sentence at a time, with no batches, no padding and no cache. It uses no other code of Headwise
(`headwise.learn.runs` reads the weights of a run); tests compare it with the real model.

Shapes: a sequence is (time, d_model); queries, keys and values are (heads, time, d_k or d_v). A weight matrix is stored
as (outputs, inputs), so that the paper's x W is x @ weight.T here. A mask is True where a query may attend to a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weights = Mapping[str, Array]

BEGIN, END = 2, 3  # ids of the symbols that begin the decoder's input and end every sentence
EPSILON = 1e-5  # ε of layer normalization


# Section 3.2.1: scaled dot-product attention


def softmax(scores: Array) -> Array:
    """exp(s_j) / Σ_j exp(s_j) over the last axis; a row that is -∞ throughout becomes zeros."""
    numerators = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-1e30))
    return numerators / np.maximum(numerators.sum(axis=-1, keepdims=True), 1)  # the largest numerator is 1


def attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V (equation 1); returns the output and the attention weights.

    q (…, query, d_k), k (…, key, d_k), v (…, key, d_v), mask broadcastable to the weights (…, query, key).
    """
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


def causal_mask(length: int) -> Array:
    """Return the mask of the decoder's self-attention: query i may attend to keys j ≤ i (section 3.2.3)."""
    return np.tri(length, dtype=bool)


# Section 3.2.2: multi-head attention


def linear(x: Array, w: Weights, name: str) -> Array:
    """x W, or x W + b where there is a bias; attention has none in the paper."""
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def split_heads(x: Array, heads: int) -> Array:
    """Cut (time, h · d) into (h, time, d): W_1 … W_h are stored side by side, as one matrix."""
    return x.reshape(len(x), heads, x.shape[1] // heads).swapaxes(0, 1)


def multi_head(x: Array, memory: Array, w: Weights, heads: int, mask: Array | None = None) -> tuple[Array, Array]:
    """MultiHead = Concat(head_1 … head_h) W^O, head_i = Attention(x W_i^Q, memory W_i^K, memory W_i^V).

    w holds `query`, `key`, `value` and `output`. In self-attention, memory is x. Returns the output (query, d_model)
    and the attention weights (heads, query, key).
    """
    q = split_heads(linear(x, w, "query"), heads)
    k = split_heads(linear(memory, w, "key"), heads)
    v = split_heads(linear(memory, w, "value"), heads)
    output, weights = attention(q, k, v, mask)
    joined = output.swapaxes(0, 1).reshape(len(x), heads * v.shape[-1])
    return linear(joined, w, "output"), weights


# Section 3.3: position-wise feed-forward networks


def feed_forward(x: Array, w: Weights) -> Array:
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (equation 2), the same at every position."""
    return linear(np.maximum(linear(x, w, "w1"), 0), w, "w2")


# Section 3.1: residual connections and layer normalization (Ba et al. 2016)


def layer_norm(x: Array, w: Weights, epsilon: float = EPSILON) -> Array:
    """(x - mean) / √(variance + ε) · gain + bias, over the features of each position."""
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered**2).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + epsilon) * w["weight"] + w["bias"]


# Section 3.5: positional encoding


def positional_encoding(length: int, d_model: int) -> Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same; (length, d_model)."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model)


# Section 3.4: embeddings, and the softmax over the vocabulary


def log_softmax(logits: Array) -> Array:
    """log softmax(x) = x - log Σ exp(x), over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


# Section 3.1: encoder and decoder stacks


@dataclass
class Transformer:
    """The model with a run's weights, named as there.

    `norm` is `post` in the paper: LayerNorm(x + Sublayer(x)). Later models mostly have `pre`, x +
    Sublayer(LayerNorm(x)), and one more normalization at the end of each stack. After a forward pass, `trace` holds its
    tensors by name, such as `encoder.0.self_attention.weights`.
    """

    weights: Weights
    encoder_layers: int
    decoder_layers: int
    heads: int
    norm: str = "post"
    trace: dict[str, Array] = field(default_factory=dict)

    def part(self, name: str) -> Weights:
        """Return the weights whose names begin with `name.`, without this prefix."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): w for key, w in self.weights.items() if key.startswith(prefix)}

    def log_probabilities(
        self, source: Sequence[int], target: Sequence[int], seen: Sequence[bool] | None = None
    ) -> Array:
        """Return log P(next token | source, target tokens so far), (target, vocabulary).

        `seen` is True for the source tokens that may be attended to, by default all.
        """
        return log_softmax(self.logits(self.decode(target, self.encode(source, seen), seen)))

    def encode(self, source: Sequence[int], seen: Sequence[bool] | None = None) -> Array:
        """Return the memory (source, d_model): in each layer self-attention, then feed-forward."""
        mask = self.visible(seen, len(source))
        x = self.embed("source_embedding.weight", source)
        for i in range(self.encoder_layers):
            x = self.encoder_layer(f"encoder.{i}", x, mask)
        return self.last_norm("encoder_norm", x)

    def decode(self, target: Sequence[int], memory: Array, seen: Sequence[bool] | None = None) -> Array:
        """Return the last hidden states (target, d_model), of which each has seen only its own and earlier tokens."""
        mask = self.visible(seen, len(memory))
        x = self.embed(self.target_embedding(), target)
        for i in range(self.decoder_layers):
            x = self.decoder_layer(f"decoder.{i}", x, memory, mask)
        return self.last_norm("decoder_norm", x)

    def encoder_layer(self, layer: str, x: Array, mask: Array) -> Array:
        """Every position attends to every position, then goes through the feed-forward network."""
        around = f"{layer}.around_attention.norm"
        x = self.after(around, x + self.self_attention(f"{layer}.self_attention", self.before(around, x), mask))
        around = f"{layer}.around_feed_forward.norm"
        return self.after(around, x + self.feed_forward(f"{layer}.feed_forward", self.before(around, x)))

    def decoder_layer(self, layer: str, x: Array, memory: Array, mask: Array) -> Array:
        """Every position attends to itself and earlier ones, then to the memory; then the feed-forward network."""
        around, earlier = f"{layer}.around_self_attention.norm", causal_mask(len(x))
        x = self.after(around, x + self.self_attention(f"{layer}.self_attention", self.before(around, x), earlier))
        around, name = f"{layer}.around_cross_attention.norm", f"{layer}.cross_attention"
        x = self.after(around, x + self.cross_attention(name, self.before(around, x), memory, mask))
        around = f"{layer}.around_feed_forward.norm"
        return self.after(around, x + self.feed_forward(f"{layer}.feed_forward", self.before(around, x)))

    def before(self, name: str, x: Array) -> Array:
        """Normalize what goes into a sub-layer with pre-norm; in the paper nothing happens here."""
        return self.layer_norm(name, x) if self.norm == "pre" else x

    def after(self, name: str, x: Array) -> Array:
        """Normalize x + Sublayer(x), as in the paper; with pre-norm nothing happens here."""
        return self.layer_norm(name, x) if self.norm == "post" else x

    def self_attention(self, name: str, x: Array, mask: Array) -> Array:
        """MultiHead(x, x, x): queries, keys and values come from the same sequence."""
        return self.attend(name, x, x, mask)

    def cross_attention(self, name: str, x: Array, memory: Array, mask: Array) -> Array:
        """MultiHead(x, memory, memory): queries come from the decoder, keys and values from the encoder."""
        return self.attend(name, x, memory, mask)

    def attend(self, name: str, x: Array, memory: Array, mask: Array) -> Array:
        """Multi-head attention with the weights of this name."""
        output, self.trace[f"{name}.weights"] = multi_head(x, memory, self.part(name), self.heads, mask)
        self.trace[name] = output
        return output

    def feed_forward(self, name: str, x: Array) -> Array:
        """The feed-forward network with the weights of this name."""
        self.trace[name] = feed_forward(x, self.part(name))
        return self.trace[name]

    def layer_norm(self, name: str, x: Array) -> Array:
        """Layer normalization with the gain and bias of this name."""
        self.trace[name] = layer_norm(x, self.part(name))
        return self.trace[name]

    def last_norm(self, name: str, x: Array) -> Array:
        """Normalize the output of a stack, if there are weights for it: with pre-norm."""
        return self.layer_norm(name, x) if f"{name}.weight" in self.weights else x

    def embed(self, name: str, tokens: Sequence[int]) -> Array:
        """Embeddings · √d_model + PE (sections 3.4 and 3.5)."""
        table = self.weights[name]
        d_model = table.shape[1]
        return table[list(tokens)] * np.sqrt(d_model) + positional_encoding(len(tokens), d_model)

    def target_embedding(self) -> str:
        """Return the name of the target embedding, which in the paper is the source embedding, too."""
        own = "target_embedding.weight"
        return own if own in self.weights else "source_embedding.weight"

    def logits(self, hidden: Array) -> Array:
        """Project hidden states to the vocabulary with the embedding matrix, or a matrix of its own."""
        own = "output_projection.weight"
        weight = self.weights[own if own in self.weights else self.target_embedding()]
        return hidden @ weight.T + self.weights.get("logit_bias", 0.0)

    def visible(self, seen: Sequence[bool] | None, length: int) -> Array:
        """Return the mask (1, key) of the keys that may be attended to, by default all."""
        return np.ones((1, length), dtype=bool) if seen is None else np.array([seen], dtype=bool)

    def greedy(self, source: Sequence[int], longest: int | None = None) -> list[int]:
        """Translate by the most probable token at each step, up to the end symbol or the limit `longest`.

        The limit counts the end symbol; its default is the input's length + 50 (section 6.1, where a beam search keeps
        the four best beginnings instead).
        """
        memory, output = self.encode(source), [BEGIN]
        while len(output) < (len(source) + 50 if longest is None else longest):
            hidden = self.decode(output, memory)
            output.append(int(self.logits(hidden[-1]).argmax()))
            if output[-1] == END:
                return output[1:-1]
        return output[1:]


# Section 5: training


def smoothed_loss(
    log_probabilities: Array,
    target: Sequence[int],
    epsilon: float = 0.1,
    over: Literal["all", "others"] = "all",
) -> float:
    """Return the label-smoothed cross-entropy (section 5.4), the mean over the tokens of -Σ_v q(v) log P(v), in nats.

    over="all" gives every class ε/V, and the target 1 - ε more (Szegedy et al. 2016, whom the paper cites);
    over="others" gives the target 1 - ε and every other class ε/(V - 1).
    """
    tokens, vocabulary = log_probabilities.shape
    shared = epsilon / vocabulary if over == "all" else epsilon / (vocabulary - 1)
    q = np.full((tokens, vocabulary), shared)
    q[np.arange(tokens), list(target)] = 1 - epsilon + (shared if over == "all" else 0)
    return float(-(q * log_probabilities).sum() / tokens)


def learning_rate(step: int, d_model: int = 512, warmup: int = 4000) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (equation 3): it rises linearly, then falls as 1/√step."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)

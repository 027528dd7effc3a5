"""Reference Transformer in NumPy, to verify the displayed attention and probabilities of the model."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headwise.models.transformer import Transformer


class Plain:
    """Post-norm Transformer in NumPy and double precision, with all attention weights and log-probabilities."""

    def __init__(self, model: Transformer) -> None:
        self.p = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
        self.heads, self.d_model = model.config.heads, model.config.d_model

    def run(self, source: tuple[int, ...], reads: tuple[int, ...]) -> tuple[dict[str, list], NDArray]:
        seen: dict[str, list] = {"encoder": [], "decoder": [], "cross": []}
        x = self.embed("source_embedding", source)
        for layer in range(2):
            name = f"encoder.{layer}."
            x = self.add(
                name + "around_attention", x, self.attend(name + "self_attention", x, x, seen["encoder"])
            )
            x = self.add(name + "around_feed_forward", x, self.feed(name, x))
        memory, x = x, self.embed("target_embedding", reads)
        for layer in range(2):
            name = f"decoder.{layer}."
            own = self.attend(name + "self_attention", x, x, seen["decoder"], causal=True)
            x = self.add(name + "around_self_attention", x, own)
            over = self.attend(name + "cross_attention", x, memory, seen["cross"])
            x = self.add(name + "around_cross_attention", x, over)
            x = self.add(name + "around_feed_forward", x, self.feed(name, x))
        logits = x @ self.p["output_projection.weight"].T
        return seen, logits - np.log(np.exp(logits).sum(1, keepdims=True))

    def embed(self, name: str, ids: tuple[int, ...]) -> NDArray:
        angles = np.arange(len(ids))[:, None] / 10000 ** (np.arange(0, self.d_model, 2) / self.d_model)
        positions = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(ids), -1)
        return self.p[f"{name}.weight"][list(ids)] * math.sqrt(self.d_model) + positions

    def attend(self, name: str, x: NDArray, over: NDArray, seen: list, causal: bool = False) -> NDArray:
        def split(which: str, of: NDArray) -> NDArray:
            return (of @ self.p[f"{name}.{which}.weight"].T).reshape(len(of), self.heads, -1).swapaxes(0, 1)

        q, k, v = split("query", x), split("key", over), split("value", over)
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2])
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores) / np.exp(scores).sum(2, keepdims=True)
        seen.append(weights)
        return (weights @ v).swapaxes(0, 1).reshape(len(x), -1) @ self.p[f"{name}.output.weight"].T

    def feed(self, name: str, x: NDArray) -> NDArray:
        p = {
            part: self.p[f"{name}feed_forward.{part}"]
            for part in ("w1.weight", "w1.bias", "w2.weight", "w2.bias")
        }
        return np.maximum(x @ p["w1.weight"].T + p["w1.bias"], 0) @ p["w2.weight"].T + p["w2.bias"]

    def add(self, name: str, x: NDArray, sublayer: NDArray) -> NDArray:
        x = x + sublayer
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return x * self.p[f"{name}.norm.weight"] + self.p[f"{name}.norm.bias"]

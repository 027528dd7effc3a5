"""How much each head matters: what the loss loses without it, by trying and by gradient (Michel et al. 2019).

By trying: the mean negative log-likelihood per target token with the head silenced, less that of the whole model. By
gradient: the mean over sentences of |∂L/∂ξ| at ξ = 1, where ξ multiplies the head's attention weights, and so its
output, and L is the sentence's negative log-likelihood (equation 3 there), divided by target tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.analysis.interventions import Part, attention_parts, heads_of, private_copy
from headwise.decoding.batching import batches, padded
from headwise.decoding.forced import token_log_probs
from headwise.decoding.translator import Translator
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import Probe, Probed
from headwise.text.tokens.subwords import BOS, EOS, PAD

_BATCH_TOKENS = 4096


@dataclass(frozen=True, order=True)
class HeadPlace:
    """Where a head is; layers and heads count from 0."""

    part: Part
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.part}.{self.layer + 1}.{self.head + 1}"


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs as ids for forced decoding: sources end with the end symbol, targets have no symbols."""

    sources: list[list[int]]
    targets: list[list[int]]

    @classmethod
    def encode(cls, translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Pairs:
        """Encode texts, leaving out pairs that are empty or longer than the model can read."""
        subwords, room = translator.subwords, translator.model.max_length
        rows = [
            (source, target)
            for source, target in zip(
                ([*subwords.encode_source(text), EOS] for text in sources),
                map(subwords.encode_target, targets),
                strict=True,
            )
            if len(source) > 1 and target and max(len(source), len(target) + 1) <= room
        ]
        return cls([source for source, _ in rows], [target for _, target in rows])

    def batches(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]:
        """Yield source, its mask, target input, target output and its mask, in batches of similar length."""
        lengths = [max(len(s), len(t) + 1) for s, t in zip(self.sources, self.targets, strict=True)]
        for rows in batches(lengths, _BATCH_TOKENS):
            source, mask = padded([self.sources[row] for row in rows], PAD, device)
            inputs, _ = padded([[BOS, *self.targets[row]] for row in rows], PAD, device)
            outputs, real = padded([[*self.targets[row], EOS] for row in rows], PAD, device)
            yield source, mask, inputs, outputs, real

    @property
    def tokens(self) -> int:
        """Target tokens, end symbols included."""
        return sum(len(target) + 1 for target in self.targets)


def head_places(model: Seq2Seq) -> list[HeadPlace]:
    """Return every head of a model, part by part and layer by layer."""
    return [
        HeadPlace(part, layer, head)
        for part, attentions in attention_parts(model).items()
        for layer, attention in enumerate(attentions)
        for head in range(heads_of(attention))
    ]


@contextmanager
def gated(model: Seq2Seq, gates: Mapping[Part, Iterable[Tensor]]) -> Iterator[None]:
    """Multiply each head's attention weights by its gate inside this context.

    `gates` hold for each part one tensor a layer, (heads,) or (batch, heads). Probes set before are called first.
    """
    before: list[tuple[Probed, Probe | None]] = []

    def probe(attention: Probed, gate: Tensor) -> Probe:
        earlier = attention.probe
        wide = gate[..., :, None, None]

        def multiply(weights: Tensor) -> Tensor:
            return (weights if earlier is None else earlier(weights)) * wide.to(weights.dtype)

        return multiply

    try:
        for part, attentions in attention_parts(model).items():
            for attention, gate in zip(attentions, gates.get(part, ()), strict=False):
                before.append((attention, attention.probe))
                attention.probe = probe(attention, gate)
        yield
    finally:
        for attention, earlier in reversed(before):
            attention.probe = earlier


def without(model: Seq2Seq, removed: Sequence[HeadPlace]) -> dict[Part, list[Tensor]]:
    """Return gates of 1, and of 0 for the heads removed."""
    device = next(model.parameters()).device
    gates: dict[Part, list[Tensor]] = {
        part: [torch.ones(heads_of(attention), device=device) for attention in attentions]
        for part, attentions in attention_parts(model).items()
    }
    for place in removed:
        gates[place.part][place.layer][place.head] = 0.0
    return gates


@torch.inference_mode()
def loss(model: Seq2Seq, pairs: Pairs) -> float:
    """Return the mean negative log-likelihood per target token, in nats."""
    total = 0.0
    for source, mask, inputs, outputs, real in pairs.batches(next(model.parameters()).device):
        gains = token_log_probs(model, source, mask, inputs, outputs)
        total -= float(gains[real].double().sum())
    return total / pairs.tokens


def importance_by_masking(translator: Translator, pairs: Pairs) -> dict[HeadPlace, float]:
    """Return what the loss rises by (nats per target token) when one head alone is silenced."""
    model = private_copy(translator.model)
    whole = loss(model, pairs)
    found = {}
    for place in head_places(model):
        with gated(model, {place.part: without(model, [place])[place.part]}):
            found[place] = loss(model, pairs) - whole
    return found


def importance_by_gradient(translator: Translator, pairs: Pairs) -> dict[HeadPlace, float]:
    """Return the mean over sentences of |∂L/∂ξ|, L in nats per target token of the sentence."""
    model = private_copy(translator.model)
    parts = attention_parts(model)
    totals: dict[Part, NDArray[np.float64]] = {
        part: np.zeros((len(found), heads_of(found[0]))) for part, found in parts.items() if found
    }
    with torch.enable_grad():
        for source, mask, inputs, outputs, real in pairs.batches(next(model.parameters()).device):
            gates: dict[Part, list[Tensor]] = {
                part: [
                    torch.ones(len(source), total.shape[1], requires_grad=True, device=source.device)
                    for _ in total
                ]
                for part, total in totals.items()
            }
            with gated(model, gates):
                gains = token_log_probs(model, source, mask, inputs, outputs)
            each = -(gains * real).sum(1) / real.sum(1)  # (batch,)
            flat = [gate for layers in gates.values() for gate in layers]
            slopes = iter(torch.autograd.grad(each.sum(), flat))
            for part, layers in gates.items():
                totals[part] += np.stack([next(slopes).abs().sum(0).cpu().numpy() for _ in layers])
    sentences = len(pairs.sources)
    return {
        HeadPlace(part, layer, head): float(total[layer, head]) / sentences
        for part, total in totals.items()
        for layer in range(total.shape[0])
        for head in range(total.shape[1])
    }

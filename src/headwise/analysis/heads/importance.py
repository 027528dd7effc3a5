"""Head importance by masking and by gradient (Michel et al. 2019).

Masking: the increase of the mean negative log-likelihood per target token when the head is masked. Gradient: the mean
over sentences of |∂L/∂ξ| at ξ = 1, where ξ multiplies the head's attention weights, and so its output, and L is the
sentence's negative log-likelihood (equation 3 there), divided by its number of target tokens.

The least important heads can be removed; `pruning_curve` is BLEU by how many are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.analysis.interventions import Part, attention_parts, heads_of
from headwise.analysis.interventions.sublayers import Changes
from headwise.decoding.batching import batches, padded
from headwise.decoding.scoring import token_log_probs
from headwise.decoding.translator_model import pytorch_model, with_model
from headwise.engine.translator import Translator
from headwise.evaluation.translation import bleu
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import Probe
from headwise.nn.recording import private_copy
from headwise.text.tokens.subwords import BOS, EOS, PAD

_BATCH_TOKENS = 4096


@dataclass(frozen=True, order=True)
class HeadPlace:
    """Location of a head: part, layer and head, the latter two counted from 0."""

    part: Part
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.part}.{self.layer + 1}.{self.head + 1}"


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs as ids for forced decoding: sources end with the end symbol, targets have no special symbols."""

    sources: list[list[int]]
    targets: list[list[int]]

    @classmethod
    def encode(cls, translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Pairs:
        """Encode sentence pairs; those with an empty side or longer than the model's maximum length are left out."""
        subwords, max_length = translator.subwords, translator.engine.max_length
        pairs = [
            (source, target)
            for source, target in zip(
                ([*subwords.encode_source(text), EOS] for text in sources),
                map(subwords.encode_target, targets),
                strict=True,
            )
            if len(source) > 1 and target and max(len(source), len(target) + 1) <= max_length
        ]
        return cls([source for source, _ in pairs], [target for _, target in pairs])

    def batches(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]:
        """Yield batches of pairs of similar length: source, its mask, target input, target output and its mask."""
        lengths = [max(len(s), len(t) + 1) for s, t in zip(self.sources, self.targets, strict=True)]
        for indices in batches(lengths, _BATCH_TOKENS):
            source, mask = padded([self.sources[index] for index in indices], PAD, device)
            inputs, _ = padded([[BOS, *self.targets[index]] for index in indices], PAD, device)
            outputs, real = padded([[*self.targets[index], EOS] for index in indices], PAD, device)
            yield source, mask, inputs, outputs, real

    @property
    def tokens(self) -> int:
        """Number of target tokens, end symbols included."""
        return sum(len(target) + 1 for target in self.targets)


def head_places(model: Seq2Seq) -> list[HeadPlace]:
    """Return the locations of all heads of a model, by part and layer."""
    return [
        HeadPlace(part, layer, head)
        for part, attentions in attention_parts(model).items()
        for layer, attention in enumerate(attentions)
        for head in range(heads_of(attention))
    ]


@contextmanager
def gated(model: Seq2Seq, gates: Mapping[Part, Iterable[Tensor]]) -> Iterator[None]:
    """Context manager that multiplies each head's attention weights by its gate.

    `gates` holds one tensor per layer for each part, (heads,) or (batch, heads). Probes set earlier are called first.
    """
    changes = Changes()
    try:
        for part, attentions in attention_parts(model).items():
            for attention, gate in zip(attentions, gates.get(part, ()), strict=False):
                changes.set(attention, "probe", _multiplied(attention.probe, gate[..., :, None, None]))
        yield
    finally:
        changes.undo()


def _multiplied(earlier: Probe | None, factor: Tensor) -> Probe:
    """Return a probe that multiplies the weights that an earlier one returns."""

    def multiply(weights: Tensor, mask: Tensor | None) -> Tensor:
        return (weights if earlier is None else earlier(weights, mask)) * factor.to(weights.dtype)

    return multiply


def without(model: Seq2Seq, removed: Sequence[HeadPlace]) -> dict[Part, list[Tensor]]:
    """Return gates for `gated`: 0 for the removed heads, 1 for all others."""
    device = next(model.parameters()).device
    gates: dict[Part, list[Tensor]] = {
        part: [torch.ones(heads_of(attention), device=device) for attention in attentions]
        for part, attentions in attention_parts(model).items()
    }
    for head in removed:
        gates[head.part][head.layer][head.head] = 0.0
    return gates


@torch.inference_mode()
def loss(model: Seq2Seq, pairs: Pairs) -> float:
    """Return the mean negative log-likelihood per target token, in nats."""
    total = 0.0
    for source, mask, inputs, outputs, real in pairs.batches(next(model.parameters()).device):
        log_probs = token_log_probs(model, source, mask, inputs, outputs)
        total -= float(log_probs[real].double().sum())
    return total / pairs.tokens


def importance_by_masking(translator: Translator, pairs: Pairs) -> dict[HeadPlace, float]:
    """Return, for each head, how much the loss rises (nats per target token) when this head alone is masked."""
    model = private_copy(pytorch_model(translator))
    full_loss = loss(model, pairs)
    importance = {}
    for head in head_places(model):
        with gated(model, {head.part: without(model, [head])[head.part]}):
            importance[head] = loss(model, pairs) - full_loss
    return importance


def importance_by_gradient(translator: Translator, pairs: Pairs) -> dict[HeadPlace, float]:
    """Return, for each head, the mean over sentences of |∂L/∂ξ|, L in nats per target token of the sentence."""
    model = private_copy(pytorch_model(translator))
    parts = attention_parts(model)
    totals: dict[Part, NDArray[np.float64]] = {
        part: np.zeros((len(attentions), heads_of(attentions[0]))) for part, attentions in parts.items() if attentions
    }
    with torch.enable_grad():
        for source, mask, inputs, outputs, real in pairs.batches(next(model.parameters()).device):
            gates: dict[Part, list[Tensor]] = {
                part: [torch.ones(len(source), total.shape[1], requires_grad=True, device=source.device) for _ in total]
                for part, total in totals.items()
            }
            with gated(model, gates):
                log_probs = token_log_probs(model, source, mask, inputs, outputs)
            sentence_losses = -(log_probs * real).sum(1) / real.sum(1)  # (batch,)
            all_gates = [gate for layers in gates.values() for gate in layers]
            gradients = iter(torch.autograd.grad(sentence_losses.sum(), all_gates))
            for part, layers in gates.items():
                totals[part] += np.stack([next(gradients).abs().sum(0).cpu().numpy() for _ in layers])
    sentences = len(pairs.sources)
    return {
        HeadPlace(part, layer, head): float(total[layer, head]) / sentences
        for part, total in totals.items()
        for layer in range(total.shape[0])
        for head in range(total.shape[1])
    }


@dataclass(frozen=True)
class PruningPoint:
    """A point of a pruning curve: BLEU with `removed` heads, a `share` of all, removed."""

    removed: int
    share: float
    bleu: float


def removal_order(importance: dict[HeadPlace, float]) -> list[HeadPlace]:
    """Return the heads sorted by importance, the least important first; ties in the order of the model."""
    return sorted(importance, key=lambda head: (importance[head], head))


def random_order(model: Seq2Seq, seed: int) -> list[HeadPlace]:
    """Return the heads in a random order, determined by the seed."""
    heads = head_places(model)
    Random(seed).shuffle(heads)
    return heads


def pruning_curve(
    translator: Translator,
    order: Sequence[HeadPlace],
    sources: Sequence[str],
    references: Sequence[str],
    *,
    points: int = 8,
) -> list[PruningPoint]:
    """Return BLEU (sacreBLEU's default) of greedy search against the number of heads removed in the given order.

    There is a point without removal, and `points` more, evenly spaced up to all heads, or one for each head if there
    are fewer heads. The translator's own model isn't modified.
    """
    curve, model = [], private_copy(pytorch_model(translator))
    points = min(points, len(order))
    for step in range(points + 1):
        count = round(len(order) * step / points)
        with gated(model, without(model, order[:count])):
            translations = with_model(translator, model).translate(sources, beam=1, n_best=1)
        score = bleu([translation.text for translation in translations], references).score
        curve.append(PruningPoint(count, count / len(order), score))
    return curve

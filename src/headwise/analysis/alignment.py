"""Word alignments read off cross-attention, and their error rate against gold ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.attention import CrossAttention
from headwise.evaluation.alignment import alignment_error_rate

Links = frozenset[tuple[int, int]]  # (source word, target word)


@dataclass(frozen=True)
class Rule:
    """Which weights an alignment is read off: one layer's mean over heads, one head, or the mean of all.

    Layers and heads count from 0; None means the mean over them.
    """

    layer: int | None = None
    head: int | None = None

    def weights(self, attention: CrossAttention) -> NDArray[np.float32]:
        """Return the chosen weights, (target words, source words)."""
        layers = attention.weights if self.layer is None else attention.weights[[self.layer]]
        heads = layers if self.head is None else layers[:, [self.head]]
        return heads.mean(axis=(0, 1))

    def __str__(self) -> str:
        layer = "mean of all layers" if self.layer is None else f"layer {self.layer + 1}"
        head = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"{layer}, {head}"


def align(attention: CrossAttention, rule: Rule) -> Links:
    """Link every target word to the source word it attends to most; the end symbol takes no links."""
    weights = rule.weights(attention)[:, :-1]
    if weights.size == 0:
        return frozenset()
    return frozenset((int(source), target) for target, source in enumerate(weights.argmax(axis=1)))


def best_rule(attentions: Sequence[CrossAttention], gold: Sequence[Links]) -> Rule:
    """Choose the rule with the lowest alignment error rate; do so on development data, never on the test set."""
    layers, heads = attentions[0].weights.shape[:2]
    rules = [Rule(), *(Rule(layer) for layer in range(layers))]
    rules += [Rule(layer, head) for layer in range(layers) for head in range(heads)]
    return min(rules, key=lambda rule: error_rate(attentions, gold, rule))


def error_rate(attentions: Sequence[CrossAttention], gold: Sequence[Links], rule: Rule) -> float:
    """Alignment error rate (Och & Ney 2003) of the rule's links against sure gold links, from 0 to 1."""
    return alignment_error_rate([align(attention, rule) for attention in attentions], list(gold))

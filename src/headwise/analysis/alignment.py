"""Word alignments extracted from cross-attention, their symmetrization, and the alignment error rate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.attention import CrossAttention
from headwise.errors import ConfigError
from headwise.evaluation.alignment import alignment_error_rate

Links = frozenset[tuple[int, int]]  # (source word, target word)


@dataclass(frozen=True)
class Rule:
    """The weights that an alignment is extracted from: one layer's mean over heads, one head, or the mean of all.

    Layers and heads count from 0; None means the mean over them. A target word's row is the decoding step that predicts
    it or, with `shift` 1, the next step, whose input it is (Chen et al. 2020, "Accurate word alignment induction from
    neural machine translation", section 3.2).
    """

    layer: int | None = None
    head: int | None = None
    shift: int = 0

    def weights(self, attention: CrossAttention) -> NDArray[np.float32]:
        """Return the selected weights, shape (target words, source words)."""
        steps = attention.reading if self.shift else attention.weights
        layers = steps if self.layer is None else steps[[self.layer]]
        heads = layers if self.head is None else layers[:, [self.head]]
        return heads.mean(axis=(0, 1))

    def __str__(self) -> str:
        layer = "mean of all layers" if self.layer is None else f"layer {self.layer + 1}"
        head = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"{layer}, {head}" + (", at the step that reads the word" if self.shift else "")

    @classmethod
    def parse(cls, text: str, layers: int, heads: int) -> Rule:
        """Parse `mean`, `3` (a layer) or `3.2` (layer and head, from 1), each with an optional `+1` for the shift.

        Raises `ConfigError` for anything else, and for a layer or head beyond the model's `layers` and `heads`.
        """
        match = re.fullmatch(r"(?:mean|([1-9][0-9]{0,8})(?:\.([1-9][0-9]{0,8}))?)(\+1)?", text.strip())
        if match is None:
            raise ConfigError(f"rule: expected mean, a layer such as 3, or 3.2, or one with +1, found {text!r}")
        layer, head = (None if number is None else int(number) - 1 for number in match.groups()[:2])
        for what, number, count in (("layer", layer, layers), ("head", head, heads)):
            if number is not None and number >= count:
                raise ConfigError(f"rule: expected a {what} from 1 to {count}, found {number + 1}")
        return cls(layer, head, 1 if match[3] else 0)


def align(attention: CrossAttention, rule: Rule) -> Links:
    """Link every target word to the source word with the largest weight; the end symbol is left out."""
    weights = rule.weights(attention)[:, :-1]
    if weights.size == 0:
        return frozenset()
    return frozenset((int(source), target) for target, source in enumerate(weights.argmax(axis=1)))


def all_rules(attention: CrossAttention) -> list[Rule]:
    """Return every rule for this attention: the mean, each layer, each head, without and with the shift."""
    layers, heads = map(range, attention.weights.shape[:2])
    selections = [(None, None), *product(layers, (None,)), *product(layers, heads)]
    return [Rule(layer, head, shift) for shift in (0, 1) for layer, head in selections]


def best_rule(attentions: Sequence[CrossAttention], gold: Sequence[Links]) -> Rule:
    """Return the rule with the lowest alignment error rate; use development data for this, never the test set."""
    return min(all_rules(attentions[0]), key=lambda rule: error_rate(attentions, gold, rule))


def error_rate(attentions: Sequence[CrossAttention], gold: Sequence[Links], rule: Rule) -> float:
    """Return the alignment error rate (Och & Ney 2003) of the rule's links against sure gold links, from 0 to 1."""
    return alignment_error_rate([align(attention, rule) for attention in attentions], list(gold))


# --------------------------------------------------------------------------------------------- two directions

SYMMETRIZATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrize(forward: Links, backward: Links, method: str = "grow-diag-final-and") -> Links:
    """Symmetrize the alignments of both directions; links are (source word, target word) in both.

    grow-diag starts from the intersection and adds links of the union that neighbor a link of the alignment (eight
    neighbors, diagonals included), if the source or the target word is still unaligned. `final` then adds every link
    of either direction whose source or target word is unaligned, `final-and` only those with both unaligned (Koehn,
    Och & Marcu 2003, section 4.5; Och & Ney 2003). Links are visited in sorted order, forward before backward. Raises
    `ConfigError` for an unknown method.
    """
    if method not in SYMMETRIZATIONS:
        raise ConfigError(f"symmetrize: expected one of {', '.join(SYMMETRIZATIONS)}, found {method!r}")
    intersection, union = forward & backward, forward | backward
    if method == "intersection":
        return intersection
    if method == "union":
        return union
    links = _grow_diag(set(intersection), union)
    if method != "grow-diag":
        needed = 1 if method == "grow-diag-final" else 2
        for direction in (forward, backward):
            for link in sorted(direction):
                if _unaligned_words(link, links) >= needed:
                    links.add(link)
    return frozenset(links)


def _grow_diag(links: set[tuple[int, int]], union: Links) -> set[tuple[int, int]]:
    while True:
        before = len(links)
        for source, target in sorted(links):
            for down, across in _NEIGHBORS:
                neighbor = (source + down, target + across)
                if neighbor in union and neighbor not in links and _unaligned_words(neighbor, links):
                    links.add(neighbor)
        if len(links) == before:
            return links


def _unaligned_words(link: tuple[int, int], links: set[tuple[int, int]]) -> int:
    """Return how many of a link's two words are still unaligned: 0, 1 or 2."""
    return all(link[0] != source for source, _ in links) + all(link[1] != target for _, target in links)

"""Head pruning: BLEU curves by order of removal."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headwise.analysis.heads.importance import HeadPlace, gated, head_places, without
from headwise.decoding.translator import Translator
from headwise.evaluation.translation import bleu
from headwise.models.base import Seq2Seq


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
    beam: int = 1,
) -> list[PruningPoint]:
    """Return BLEU (sacreBLEU's default) against the number of heads removed in the given order.

    There is a point without removal, and `points` more, evenly spaced up to all heads. The translator's own model isn't
    modified.
    """
    curve = []
    for step in range(points + 1):
        count = round(len(order) * step / points)
        replica = copy.copy(translator)
        replica.model = copy.deepcopy(translator.model)
        with gated(replica.model, without(replica.model, order[:count])):
            translations = replica.translate(sources, beam=beam, n_best=1)
        score = bleu([translation.text for translation in translations], references).score
        curve.append(PruningPoint(count, count / len(order), score))
    return curve

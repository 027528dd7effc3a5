"""Roles of the heads of one part: positional, syntactic, coreference, rare word (Voita et al. 2019, section 5),
separator (Clark et al. 2019, section 3.2) and semantic similarity.

Every rate comes with its baselines (chance, or the best rule without a head) and the number of cases. The best of
many (a relation's best head, a head's best relation, the best fixed offset) is selected on every other sentence and
measured on the rest.

Shapes: L layers, H heads, R rows (queries), C columns (keys), W words.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.heads.similarity import REACH, SimilarityCounts

POSITIONAL = 0.9  # share of argmaxes at one offset (Voita et al. 2019, section 5.1)
ABOVE = 0.1  # margin over the best fixed offset (section 5.2), or three standard errors if they are larger
RARE = 0.5  # share of argmaxes at the least frequent token
SEPARATED = 0.5  # mean weight on separators
SIMILAR = 0.1  # correlation of weights with the similarity of embeddings
FEWEST = 20  # cases; with fewer, a head gets no role

Case = tuple[int, int, float, NDArray[np.bool_]]  # sentence, offset, chance, correct (L, H)


@dataclass(frozen=True)
class Rate:
    """A rate over n cases, with its baselines by name."""

    rate: float
    baselines: dict[str, float]
    n: int

    def beats_baselines(self, by: float) -> bool:
        """Whether, with enough cases, the rate exceeds every baseline by `by` and by three standard errors of it."""
        return self.n >= FEWEST and all(
            self.rate >= base + max(by, 3 * math.sqrt(base * (1 - base) / self.n)) for base in self.baselines.values()
        )


@dataclass(frozen=True)
class RelationRate:
    """How often a head's largest weight is on the word of the gold link.

    `direction`: `dependent` if the dependent is the query and its head the gold key, `head` for the reverse. `layer`
    and `head` count from 0. Baselines: `offset`, the best fixed offset, and `chance`.
    """

    relation: str
    direction: str
    layer: int
    head: int
    found: Rate
    offset: int  # the baseline's

    @property
    def name(self) -> str:
        """The relation and its direction from query to key, as `nsubj → head` or `head → nsubj`."""
        return f"{self.relation} → head" if self.direction == "dependent" else f"head → {self.relation}"


@dataclass(frozen=True)
class HeadRoles:
    """Measurements of one head; `roles` names those whose thresholds it passes.

    position: share of argmaxes at `offset`, key minus query; chance: a random key. rare: share of argmaxes on a least
    frequent token. entropy: mean entropy of a row in nats; baseline `uniform`. confidence: mean of a row's largest
    weight; baseline `uniform`. end: mean weight on the source's end symbol, or the decoder's start symbol.
    separator: mean weight on separators: start and end symbols and punctuation; baseline `uniform`.
    similarity: correlation of the weights with the similarity of embeddings beyond position, over pairs of tokens;
    baseline `permuted` (`headwise.analysis.heads.similarity`); None for cross-attention.
    relation, coreference: the best gold relation, None without gold annotation.
    """

    layer: int
    head: int
    offset: int
    position: Rate
    rare: Rate
    entropy: Rate
    confidence: Rate
    end: Rate
    separator: Rate
    similarity: Rate | None
    relation: RelationRate | None
    coreference: RelationRate | None
    roles: tuple[str, ...]


class TokenCounts:
    """Accumulator of the measurements that need no gold annotation; `add` takes one sentence at a time."""

    def __init__(self, causal: bool = False) -> None:
        self.causal, self.sentences, self.rows = causal, 0, 0
        # Argmaxes at key minus query, from -REACH, (L, H, 2 REACH + 1), and how many there are by chance.
        self.offsets: NDArray[np.int64] | None = None
        self.chances = np.zeros(2 * REACH + 1)
        self.totals: defaultdict[str, NDArray[np.float64] | float] = defaultdict(float)  # (L, H) by measurement
        self.baselines: defaultdict[str, float] = defaultdict(float)

    def add(
        self,
        weights: NDArray[np.float32],
        frequencies: Sequence[float],
        *,
        end: int,
        separators: Sequence[bool],
    ) -> None:
        """Add one sentence: weights (L, H, R, C), the frequency of each column's token, and `end`, a symbol's column.

        `separators` tells which columns are separators. A causal row attends to the columns up to its own; the first
        one, which has only itself, isn't counted.
        """
        self.sentences += 1
        first = 1 if self.causal else 0
        rows, columns = weights.shape[2:]
        assert max(rows, columns) <= REACH
        counts = np.asarray(frequencies, np.float64)
        is_separator = np.asarray(separators)
        if self.offsets is None:
            self.offsets = np.zeros((*weights.shape[:2], 2 * REACH + 1), np.int64)
        heads = np.ogrid[: weights.shape[0], : weights.shape[1]]
        for row in range(first, rows):
            visible = row + 1 if self.causal else columns
            row_weights = weights[:, :, row, :visible].astype(np.float64)  # (L, H, visible)
            argmax = row_weights.argmax(-1)
            self.chances[REACH - row : REACH - row + visible] += 1 / visible
            self.offsets[*heads, argmax - row + REACH] += 1
            is_rarest = counts[:visible] == counts[:visible].min()
            logarithms = np.log(np.where(row_weights > 0, row_weights, 1.0))
            separator = row_weights[..., is_separator[:visible]].sum(-1)
            for name, found, baseline in (
                ("rare", is_rarest[argmax], is_rarest.mean()),
                ("entropy", -(row_weights * logarithms).sum(-1), np.log(visible)),
                ("confidence", row_weights.max(-1), 1 / visible),
                ("end", row_weights[..., end], 0.0),
                ("separator", separator, is_separator[:visible].mean()),
            ):
                self.totals[name] = self.totals[name] + found
                self.baselines[name] += baseline
            self.rows += 1


class LinkCounts:
    """Accumulator of how well heads follow gold links between words; `add` takes one sentence at a time, in order."""

    def __init__(self, *, causal: bool = False) -> None:
        """For a causal part, links to later words aren't counted."""
        self.causal = causal
        self.sentences = 0
        self.cases: dict[tuple[str, str], list[Case]] = defaultdict(list)

    def add(self, weights: NDArray[np.float32], links: Iterable[tuple[int, int, str]], *, both: bool = True) -> None:
        """Add one sentence: weights (L, H, W, W) over words, and (dependent, head, relation) with words from 0.

        A head's prediction is the word with the largest weight, the query itself excluded. With `both`, links are
        counted from the syntactic head to the dependent, too.
        """
        words = weights.shape[2]
        for dependent, head, relation in links:
            directions = [("dependent", dependent, head)] + ([("head", head, dependent)] if both else [])
            for direction, query, gold in directions:
                visible = query + 1 if self.causal else words
                if gold >= visible or visible < 2:
                    continue
                row = weights[:, :, query, :visible].copy()
                row[:, :, query] = -1.0
                case = (self.sentences, gold - query, 1 / (visible - 1), row.argmax(-1) == gold)
                self.cases[relation, direction].append(case)
        self.sentences += 1

    def relation(self, key: tuple[str, str]) -> RelationRate | None:
        """Return the rate of the best head for a relation: selected on sentences 0, 2, …, measured on 1, 3, …

        None if either half has no case.
        """
        selection, evaluation = self._halves(key)
        if not selection or not evaluation:
            return None
        totals = np.sum([correct for *_, correct in selection], axis=0)  # (L, H)
        layer, head = np.unravel_index(int(totals.argmax()), totals.shape)
        return self._rate(key, selection, evaluation, int(layer), int(head))

    def best_of_head(self, layer: int, head: int, relations: Iterable[tuple[str, str]]) -> RelationRate | None:
        """Return the rate of one head's best relation: that with the largest gain over the fixed offset in selection.

        None if no relation has enough cases.
        """
        best: tuple[float, tuple[str, str]] | None = None
        for key in relations:
            selection, _ = self._halves(key)
            if len(selection) < FEWEST:
                continue
            rate = np.mean([correct[layer, head] for *_, correct in selection])
            gain = float(rate) - self._offset(selection)[1] / len(selection)
            if best is None or gain > best[0]:
                best = (gain, key)
        if best is None:
            return None
        selection, evaluation = self._halves(best[1])
        return self._rate(best[1], selection, evaluation, layer, head) if evaluation else None

    def relations(self) -> list[tuple[str, str]]:
        """Return the relations with enough cases in each half, the most frequent first."""
        keys = [key for key in self.cases if min(map(len, self._halves(key))) >= FEWEST]
        return sorted(keys, key=lambda key: (-len(self.cases[key]), key))

    def _halves(self, key: tuple[str, str]) -> tuple[list[Case], list[Case]]:
        cases = self.cases.get(key, [])
        return [case for case in cases if case[0] % 2 == 0], [case for case in cases if case[0] % 2 == 1]

    @staticmethod
    def _offset(cases: Sequence[Case]) -> tuple[int, int]:
        """Return the most frequent offset and its number of cases."""
        return Counter(offset for _, offset, *_ in cases).most_common(1)[0]

    def _rate(
        self,
        key: tuple[str, str],
        selection: Sequence[Case],
        evaluation: Sequence[Case],
        layer: int,
        head: int,
    ) -> RelationRate:
        offset = self._offset(selection)[0]
        baselines = {
            "offset": float(np.mean([case[1] == offset for case in evaluation])),
            "chance": float(np.mean([case[2] for case in evaluation])),
        }
        rate = float(np.mean([case[3][layer, head] for case in evaluation]))
        return RelationRate(*key, layer, head, Rate(rate, baselines, len(evaluation)), offset)


def head_roles(
    tokens: TokenCounts,
    links: LinkCounts,
    coreference: LinkCounts,
    similarity: SimilarityCounts | None = None,
) -> list[HeadRoles]:
    """Return the measurements and roles of each head of one part, layer by layer."""
    assert tokens.offsets is not None, "count at least one sentence"
    layers, heads = tokens.offsets.shape[:2]
    relations, pronouns = links.relations(), coreference.relations()
    correlations = None if similarity is None else similarity.correlations()
    results = []
    for layer in range(layers):
        for head in range(heads):
            offset = int(tokens.offsets[layer, head].argmax()) - REACH
            relation = links.best_of_head(layer, head, relations)
            antecedent = coreference.best_of_head(layer, head, pronouns)
            similar = None
            if similarity is not None and correlations is not None:
                found, permuted = (float(values[layer, head]) for values in correlations)
                similar = Rate(found, {"permuted": permuted}, similarity.pairs)
            results.append(_head(tokens, layer, head, offset, relation, antecedent, similar))
    return results


def _head(
    tokens: TokenCounts,
    layer: int,
    head: int,
    offset: int,
    relation: RelationRate | None,
    coreference: RelationRate | None,
    similarity: Rate | None,
) -> HeadRoles:
    n = tokens.rows

    def rate(name: str, baseline: str | None) -> Rate:
        total = tokens.totals[name]
        assert isinstance(total, np.ndarray)
        baselines = {baseline: tokens.baselines[name] / n} if baseline else {}
        return Rate(float(total[layer, head]) / n, baselines, n)

    assert tokens.offsets is not None
    index = offset + REACH
    chance = float(tokens.chances[index]) / n
    position = Rate(float(tokens.offsets[layer, head, index]) / n, {"chance": chance}, n)
    rare, separator = rate("rare", "chance"), rate("separator", "uniform")
    roles = []
    if position.rate >= POSITIONAL and n >= FEWEST:
        roles.append(f"position {offset:+d}" if offset else "position 0")
    if relation is not None and relation.found.beats_baselines(ABOVE):
        roles.append(relation.name)
    if coreference is not None and coreference.found.beats_baselines(ABOVE):
        roles.append("coreference")
    if rare.rate >= RARE and rare.beats_baselines(ABOVE):
        roles.append("rare word")
    if separator.rate >= SEPARATED and separator.beats_baselines(ABOVE):
        roles.append("separator")
    if similarity is not None and similarity.n >= FEWEST:
        above_chance = similarity.rate > similarity.baselines["permuted"]
        if similarity.rate >= SIMILAR and above_chance:
            roles.append("semantic similarity")
    return HeadRoles(
        layer,
        head,
        offset,
        position,
        rare,
        rate("entropy", "uniform"),
        rate("confidence", "uniform"),
        rate("end", None),
        separator,
        similarity,
        relation,
        coreference,
        tuple(roles),
    )

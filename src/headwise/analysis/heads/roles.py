"""What each head of one part does, measured: where it looks, at whom, and how sharply (Voita et al. 2019, section 5).

Every number stands beside what chance or the best rule without a head gives, and beside the number of cases. Where
the best of many is reported (a relation's best head, a head's best relation, the best fixed offset), it is chosen on
every other sentence and measured on the rest.

Shapes: L layers, H heads, R rows (queries), C columns (keys), W words.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

POSITIONAL = 0.9  # share of argmaxes at one offset (Voita et al. 2019, section 5.1)
ABOVE = 0.1  # that a head must be more accurate than the best fixed offset (section 5.2), and three standard errors
RARE = 0.5  # share of argmaxes at the least frequent token
FEWEST = 20  # cases below which a head gets no role


_REACH = 2048  # positions
Case = tuple[int, int, float, NDArray[np.bool_]]  # sentence, offset, chance, found (L, H)


@dataclass(frozen=True)
class Rate:
    """A share of n cases, and the baselines beside it, by name."""

    rate: float
    baselines: dict[str, float]
    n: int

    def beats_baselines(self, by: float) -> bool:
        """Whether it exceeds every baseline by this much, and by three of the baseline's standard errors."""
        return self.n >= FEWEST and all(
            self.rate >= base + max(by, 3 * math.sqrt(base * (1 - base) / self.n))
            for base in self.baselines.values()
        )


@dataclass(frozen=True)
class RelationRate:
    """How often the word attended to most is the one that a gold link names.

    `direction`: `dependent` where a dependent's row is asked for its head, `head` for the reverse. `layer` and `head`
    count from 0. Baselines: `offset`, the best fixed distance, and `chance`.
    """

    relation: str
    direction: str
    layer: int
    head: int
    found: Rate
    offset: int  # of the baseline

    @property
    def name(self) -> str:
        """The relation and who is asked for whom, as `nsubj → head` or `head → nsubj`."""
        return f"{self.relation} → head" if self.direction == "dependent" else f"head → {self.relation}"


@dataclass(frozen=True)
class HeadRoles:
    """One head's numbers; `roles` are those whose thresholds it passes, in words.

    position: share of argmaxes at `offset`, key minus query; chance: a random key. rare: argmax is a least frequent
    token. entropy: mean of a row's entropy in nats; baseline `uniform`. confidence: mean of a row's largest weight;
    baseline `uniform`. end: mean weight on the source's end symbol, or the decoder's start symbol.
    relation, coreference: the best of the gold ones, None without gold.
    """

    layer: int
    head: int
    offset: int
    position: Rate
    rare: Rate
    entropy: Rate
    confidence: Rate
    end: Rate
    relation: RelationRate | None
    coreference: RelationRate | None
    roles: tuple[str, ...]


@dataclass
class TokenCounts:
    """Sums over sentences of what needs no gold annotation; `add` one sentence at a time."""

    causal: bool = False
    sentences: int = 0
    rows: int = 0
    offsets: NDArray[np.int64] | None = (
        None  # argmaxes at key minus query, from -_REACH, (L, H, 2 _REACH + 1)
    )
    chances: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2 * _REACH + 1))
    rare: NDArray[np.float64] | float = 0.0  # (L, H)
    rare_chance: float = 0.0
    entropy: NDArray[np.float64] | float = 0.0
    entropy_uniform: float = 0.0
    confidence: NDArray[np.float64] | float = 0.0
    confidence_uniform: float = 0.0
    end: NDArray[np.float64] | float = 0.0

    def add(self, weights: NDArray[np.float32], frequencies: Sequence[float], *, end: int) -> None:
        """Count one sentence: weights (L, H, R, C), how frequent each column's token is, and `end`'s column.

        Causal rows see the columns up to their own, and the first, which sees only itself, isn't counted.
        """
        self.sentences += 1
        first = 1 if self.causal else 0
        rows, columns = weights.shape[2:]
        assert max(rows, columns) <= _REACH
        counts = np.asarray(frequencies, np.float64)
        if self.offsets is None:
            self.offsets = np.zeros((*weights.shape[:2], 2 * _REACH + 1), np.int64)
        heads = np.ogrid[: weights.shape[0], : weights.shape[1]]
        for row in range(first, rows):
            seen = row + 1 if self.causal else columns
            here = weights[:, :, row, :seen].astype(np.float64)  # (L, H, seen)
            best = here.argmax(-1)
            self.chances[_REACH - row : _REACH - row + seen] += 1 / seen
            self.offsets[*heads, best - row + _REACH] += 1
            least = counts[:seen] == counts[:seen].min()
            self.rare = self.rare + least[best]
            self.rare_chance += least.mean()
            self.entropy = self.entropy - (here * np.log(np.where(here > 0, here, 1.0))).sum(-1)
            self.entropy_uniform += np.log(seen)
            self.confidence = self.confidence + here.max(-1)
            self.confidence_uniform += 1 / seen
            self.end = self.end + here[..., end]
            self.rows += 1


class LinkCounts:
    """Whether heads find gold links between words; `add` one sentence at a time, in order."""

    def __init__(self, *, causal: bool = False) -> None:
        """A causal part is asked only for links to words that it sees."""
        self.causal = causal
        self.sentences = 0
        self.cases: dict[tuple[str, str], list[Case]] = defaultdict(list)

    def add(
        self, weights: NDArray[np.float32], links: Iterable[tuple[int, int, str]], *, both: bool = True
    ) -> None:
        """Count one sentence: weights (L, H, W, W) over words, and (dependent, head, relation) with words from 0.

        The answer is the word with the largest weight, the asked word itself left out. With `both`, heads are asked
        for their dependents, too.
        """
        words = weights.shape[2]
        for dependent, head, relation in links:
            asked = [("dependent", dependent, head)] + ([("head", head, dependent)] if both else [])
            for direction, query, answer in asked:
                seen = query + 1 if self.causal else words
                if answer >= seen or seen < 2:
                    continue
                row = weights[:, :, query, :seen].copy()
                row[:, :, query] = -1.0
                case = (self.sentences, answer - query, 1 / (seen - 1), row.argmax(-1) == answer)
                self.cases[relation, direction].append(case)
        self.sentences += 1

    def relation(self, key: tuple[str, str]) -> RelationRate | None:
        """Score the best head for a relation: chosen on sentences 0, 2, …, measured on 1, 3, …"""
        choosing, measuring = self._halves(key)
        if not choosing or not measuring:
            return None
        totals = np.sum([found for *_, found in choosing], axis=0)  # (L, H)
        layer, head = np.unravel_index(int(totals.argmax()), totals.shape)
        return self._rate(key, choosing, measuring, int(layer), int(head))

    def best_of_head(
        self, layer: int, head: int, relations: Iterable[tuple[str, str]]
    ) -> RelationRate | None:
        """Score one head's best relation: the one that exceeds the fixed offset most where it is chosen."""
        best: tuple[float, tuple[str, str]] | None = None
        for key in relations:
            choosing, _ = self._halves(key)
            if len(choosing) < FEWEST:
                continue
            rate = np.mean([found[layer, head] for *_, found in choosing])
            gain = float(rate) - self._offset(choosing)[1] / len(choosing)
            if best is None or gain > best[0]:
                best = (gain, key)
        if best is None:
            return None
        choosing, measuring = self._halves(best[1])
        return self._rate(best[1], choosing, measuring, layer, head) if measuring else None

    def relations(self, fewest: int = FEWEST) -> list[tuple[str, str]]:
        """Return the relations with enough cases in each half, the most frequent first."""
        keys = [key for key in self.cases if min(map(len, self._halves(key))) >= fewest]
        return sorted(keys, key=lambda key: (-len(self.cases[key]), key))

    def _halves(self, key: tuple[str, str]) -> tuple[list[Case], list[Case]]:
        cases = self.cases.get(key, [])
        return [case for case in cases if case[0] % 2 == 0], [case for case in cases if case[0] % 2 == 1]

    @staticmethod
    def _offset(cases: Sequence[Case]) -> tuple[int, int]:
        """Return the most frequent offset and how often it is right."""
        return Counter(offset for _, offset, *_ in cases).most_common(1)[0]

    def _rate(
        self, key: tuple[str, str], choosing: Sequence[Case], measuring: Sequence[Case], layer: int, head: int
    ) -> RelationRate:
        offset = self._offset(choosing)[0]
        baselines = {
            "offset": float(np.mean([case[1] == offset for case in measuring])),
            "chance": float(np.mean([case[2] for case in measuring])),
        }
        rate = float(np.mean([case[3][layer, head] for case in measuring]))
        return RelationRate(*key, layer, head, Rate(rate, baselines, len(measuring)), offset)


def head_roles(
    tokens: TokenCounts, links: LinkCounts | None = None, coreference: LinkCounts | None = None
) -> list[HeadRoles]:
    """Turn the counts of one part into each head's numbers and roles, layer by layer."""
    assert tokens.offsets is not None, "count at least one sentence"
    layers, heads = tokens.offsets.shape[:2]
    relations = [] if links is None else links.relations()
    pronouns = [] if coreference is None else coreference.relations()
    found = []
    for layer in range(layers):
        for head in range(heads):
            offset = int(tokens.offsets[layer, head].argmax()) - _REACH
            relation = None if links is None else links.best_of_head(layer, head, relations)
            refers = None if coreference is None else coreference.best_of_head(layer, head, pronouns)
            found.append(_head(tokens, layer, head, offset, relation, refers))
    return found


def _head(
    tokens: TokenCounts,
    layer: int,
    head: int,
    offset: int,
    relation: RelationRate | None,
    coreference: RelationRate | None,
) -> HeadRoles:
    n = tokens.rows

    def rate(total: NDArray | float, name: str = "", base: float = 0.0) -> Rate:
        assert isinstance(total, np.ndarray)
        return Rate(float(total[layer, head]) / n, {name: base / n} if name else {}, n)

    assert tokens.offsets is not None
    place = offset + _REACH
    position = rate(tokens.offsets[:, :, place], "chance", float(tokens.chances[place]))
    rare = rate(tokens.rare, "chance", tokens.rare_chance)
    roles = []
    if position.rate >= POSITIONAL and n >= FEWEST:
        roles.append(f"position {offset:+d}" if offset else "position 0")
    if relation is not None and relation.found.beats_baselines(ABOVE):
        roles.append(relation.name)
    if coreference is not None and coreference.found.beats_baselines(ABOVE):
        roles.append("coreference")
    if rare.rate >= RARE and rare.beats_baselines(ABOVE):
        roles.append("rare word")
    return HeadRoles(
        layer,
        head,
        offset,
        position,
        rare,
        rate(tokens.entropy, "uniform", tokens.entropy_uniform),
        rate(tokens.confidence, "uniform", tokens.confidence_uniform),
        rate(tokens.end),
        relation,
        coreference,
        tuple(roles),
    )

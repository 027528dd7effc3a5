"""The terms of one sentence as an automaton that reads a hypothesis token by token and tells which terms it contains.

A term has one or more forms, sequences of token ids of which any one satisfies it, and must occur so many times. The
forms of all terms are one trie (Hu et al. 2019, "Improved lexically constrained decoding for translation and
monolingual rewriting"), here with the suffix links of Aho and Corasick 1975 ("Efficient string matching"). The node
after a token is therefore the longest end of the hypothesis with which some form begins: a hypothesis contains a term
exactly if a form of it occurs anywhere, also where forms overlap or a first attempt was abandoned.

A form must be followed by the end of a word: the pieces `▁Haus` `tür` are another word than `▁Haus`. So what ends at a
node is counted when the next token doesn't continue a word, and provisionally until then.

`sentence_terms` makes the terms from a glossary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.characters import UNSPACED
from headwise.errors import DataError
from headwise.text.reading.glossary import Match
from headwise.text.tokens.subwords import SPECIAL, Subwords

MOST_TERMS = 64  # of a sentence, repetitions included: a bit each
MOST_NODES = 256  # so that the edges of a hostile glossary stay small: at most about 16,000

State = tuple[int, int]  # bits of the terms that were counted, and the node
START: State = (0, 0)


@dataclass(frozen=True)
class Term:
    """A term: its forms as token ids, and how many times it must occur."""

    forms: tuple[tuple[int, ...], ...]
    count: int = 1

    @property
    def length(self) -> int:
        """Tokens that suffice for all its occurrences."""
        return self.count * min(map(len, self.forms))


class Terms:
    """The automaton of a sentence's terms."""

    def __init__(self, terms: Sequence[Term]) -> None:
        """Build it; raises `DataError` for no terms, an empty form, and beyond `MOST_TERMS` and `MOST_NODES`."""
        self.terms = tuple(terms)
        copies = sum(term.count for term in self.terms)
        if not 1 <= copies <= MOST_TERMS or any(term.count < 1 for term in self.terms):
            raise DataError(f"terms: expected from 1 to {MOST_TERMS} in a sentence, found {copies}")
        if any(not form for term in self.terms for form in term.forms or [()]):
            raise DataError("terms: expected forms of at least one token, found an empty one")
        self.length = sum(term.length for term in self.terms)
        self.masks: list[int] = []
        shift = 0
        for term in self.terms:
            self.masks.append(((1 << term.count) - 1) << shift)
            shift += term.count
        self._children: list[dict[int, int]] = [{}]  # by token, of each node of the trie
        self._suffixes = [0]  # the longest end of each node's tokens that is a node, too
        self.ends: list[list[int]] = [[]]  # terms of which a form ends at the node
        shortest = [min(map(len, term.forms)) for term in self.terms]
        self.distances: list[list[int]] = [list(shortest)]
        self._left: dict[State, int] = {}  # what `left` has returned; most candidates share a few states
        self._add_forms()
        self._link()

    @property
    def tokens(self) -> set[int]:
        """The tokens of all forms."""
        return {token for term in self.terms for form in term.forms for token in form}

    def settled(self, state: State) -> int:
        """Return the bits of the terms that a hypothesis contains if no token continues its last word."""
        met, node = state
        for term in self.ends[node]:
            missing = self.masks[term] & ~met
            met |= missing & -missing  # the lowest bit, one occurrence
        return met

    def next(self, state: State, token: int, continues: bool) -> State:
        """Return the state after another token, which `continues` the last word or doesn't."""
        met = state[0] if continues else self.settled(state)
        node = state[1]
        while node and token not in self._children[node]:
            node = self._suffixes[node]
        return met, self._children[node].get(token, 0)

    def advancing(self, node: int) -> dict[int, int]:
        """Return the tokens, ascending, with which a term begins or continues after a node, with the next nodes."""
        merged = dict(self._children[node])
        while node:
            node = self._suffixes[node]
            merged = self._children[node] | merged
        return dict(sorted(merged.items()))

    def left(self, state: State) -> int:
        """Return how many tokens suffice to complete all terms: 0 where the hypothesis contains them.

        Of terms that have begun only the one that saves most counts as begun, so that this is never too low.
        """
        if state in self._left:
            return self._left[state]
        met = self.settled(state)
        sum_left = saved = 0
        for mask, whole, distance in zip(self.masks, self.distances[0], self.distances[state[1]], strict=True):
            missing = (mask & ~met).bit_count()
            if missing:
                sum_left += missing * whole
                saved = max(saved, whole - distance)
        self._left[state] = sum_left - saved
        return sum_left - saved

    def _add_forms(self) -> None:
        """Make the trie, and note the distances of its nodes but those over suffix links."""
        for number, term in enumerate(self.terms):
            for form in dict.fromkeys(term.forms):
                node = 0
                for place, token in enumerate(form):
                    if place:
                        distances = self.distances[node]
                        distances[number] = min(distances[number], len(form) - place)
                    if token not in self._children[node]:
                        if len(self._children) == MOST_NODES:
                            raise DataError(
                                f"terms: expected forms of at most {MOST_NODES} tokens together in a sentence"
                            )
                        self._children[node][token] = len(self._children)
                        self._children.append({})
                        self._suffixes.append(0)
                        self.ends.append([])
                        self.distances.append(list(self.distances[0]))
                    node = self._children[node][token]
                self.ends[node].append(number)

    def _link(self) -> None:
        """Find the suffix links, and add to every node the ends and the smaller distances of the node it links to."""
        level = list(self._children[0].values())
        while level:
            following = []
            for node in level:
                suffix = self._suffixes[node]
                for token, child in self._children[node].items():
                    self._suffixes[child] = self.next((0, suffix), token, continues=True)[1]
                    following.append(child)
                self.ends[node] += [term for term in self.ends[suffix] if term not in self.ends[node]]
                self.distances[node] = list(map(min, self.distances[node], self.distances[suffix]))
            level = following


TERM_BEAM = 10  # smallest beam of a sentence with terms, as in Post and Vilar 2018: its banks share the beam
_SPACE = "▁"


def sentence_terms(matches: Sequence[Match], subwords: Subwords, room: int) -> Terms | None:
    """Return the terms of a sentence whose glossary matches are given; None without any.

    `room` bounds the tokens of all terms together. A form with a character that the vocabulary lacks can't be written;
    an entry without another form is left out, and so are entries beyond the bounds of an automaton.
    """
    terms: list[Term] = []
    copies = nodes = 0
    for match in matches:
        forms = [form for target in match.entry.targets for form in _forms(target, subwords)]
        if not forms:
            continue
        term = Term(tuple(dict.fromkeys(forms)), match.count)
        copies += term.count
        nodes += sum(map(len, term.forms))
        if copies > MOST_TERMS or nodes >= MOST_NODES or sum(each.length for each in [*terms, term]) > room:
            break
        terms.append(term)
    return Terms(terms) if terms else None


def _forms(target: str, subwords: Subwords) -> list[tuple[int, ...]]:
    """Return the ids of a translation; in scripts without spaces also as they are inside a sentence."""
    ids = subwords.encode_target(target)
    if ids and ids[0] in subwords.given:
        ids = ids[1:]
    if not ids or not {*SPECIAL, *subwords.given}.isdisjoint(ids):
        return []
    if len(ids) > 1 and UNSPACED.match(target) and subwords.target_pieces(ids[:1]) == [_SPACE]:
        return [tuple(ids), tuple(ids[1:])]
    return [tuple(ids)]

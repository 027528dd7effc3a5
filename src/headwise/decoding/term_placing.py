"""Beam search that places the terms of a sentence: dynamic beam allocation, with the trie of all forms.

Beam search compares hypotheses by their probability, in which one that has just begun an unlikely term loses against
those that avoid it. Dynamic beam allocation (Post and Vilar 2018, "Fast lexically constrained decoding with dynamic
beam allocation for neural machine translation") therefore divides the beam among banks: hypotheses compete only with
those to which as many tokens of terms are missing. A hypothesis can't end while a term is missing.

The candidates of a step are, of every live hypothesis, its 2k likeliest continuations and all tokens with which a
missing term begins or continues. The beam is filled in rounds: in each, the best remaining candidate of every bank, the
banks with the fewest missing tokens first (the rounds are those of Hu et al. 2019). An empty bank leaves its share to
the others, and with all terms placed this is the plain beam search.

Two things differ from the papers. Terms are counted wherever they occur, also where the model produced them by itself
(see `headwise.engine.terms`), and a hypothesis that needs all tokens that the length limit leaves it is
continued by terms only; so they are placed in any output, unless one form is the beginning of another's word.
`native/beam.h` has the same search in C++.

Shapes: n sentences, k hypotheses each, v vocabulary, m candidates of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.decoding.selection import Candidates, top
from headwise.engine.symbols import Symbols
from headwise.engine.terms import START, State, Terms


@dataclass
class _Sentence:
    terms: Terms
    states: list[State]  # of the live hypotheses


@dataclass(frozen=True)
class _Candidate:
    parent: int
    token: int
    token_log_prob: float
    total: float
    state: State
    left: int


class TermPlacing:
    """The terms of the unfinished sentences, and how far their hypotheses have placed them."""

    def __init__(self, terms: Sequence[Terms | None], k: int, symbols: Symbols, limits: Tensor) -> None:
        """`limits` (n,) bound |Y|."""
        self._sentences = [None if each is None else _Sentence(each, [START] * k) for each in terms]
        self._k, self._eos, self._continuing = k, symbols.eos, symbols.continuing
        self._limits = limits

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences."""
        self._sentences = [self._sentences[number] for number in sentences.tolist()]
        self._limits = self._limits[sentences]

    def apply(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Forbid the end of hypotheses with missing terms, and all but terms where the rest of the length is needed.

        `log_probs` (n, k, v) are changed in place; `tokens` are (n, k, t). A hypothesis whose only allowed continuation
        is its end may end.
        """
        step = tokens.shape[-1]
        for number, (sentence, limit) in enumerate(zip(self._sentences, self._limits.tolist(), strict=True)):
            if sentence is None or step + 1 >= limit:
                continue
            for place, state in enumerate(sentence.states):
                left = sentence.terms.left(state)
                if not left:
                    continue
                row = log_probs[number, place]
                end = row[self._eos].clone()
                row[self._eos] = -torch.inf
                if left >= limit - step - 1:
                    kept = [token for token in self._advancing(sentence, state, left) if row[token].isfinite()]
                    if kept:
                        values = row[kept]
                        row.fill_(-torch.inf)
                        row[kept] = values
                if not row.isfinite().any():
                    row[self._eos] = end
        return log_probs

    def choose(self, chosen: Candidates, log_probs: Tensor, totals: Tensor, finished: Tensor) -> Candidates:
        """Replace the candidates of sentences with terms; the arguments are those of the plain search.

        `log_probs` (n, k, v), `totals` (n, k), and `finished` (n,) counts finished hypotheses.
        """
        numbers = [number for number, sentence in enumerate(self._sentences) if sentence is not None]
        if not numbers:
            return chosen
        chosen = replace(chosen, **{name: getattr(chosen, name).clone() for name in vars(chosen)})
        for number in numbers:
            pool = self._pool(number, log_probs[number], totals[number])
            live, ends = _select(pool, self._k, self._eos, any_finished=bool(finished[number]))
            ordered = sorted([*live, *ends], key=_order)
            places = {id(candidate): column for column, candidate in enumerate(ordered)}
            device = chosen.totals.device
            for name, empty in (
                ("parents", 0),
                ("tokens", self._eos),
                ("token_log_probs", -torch.inf),
                ("totals", -torch.inf),
            ):
                values = [getattr(candidate, name[:-1]) for candidate in ordered]
                tensor = getattr(chosen, name)
                values += [empty] * (tensor.shape[1] - len(values))
                tensor[number] = torch.tensor(values, dtype=tensor.dtype, device=device)
            chosen.ends[number] = False
            chosen.ends[number, [places[id(candidate)] for candidate in ends]] = True
            # Empty places of the beam continue the first candidate with a probability of 0.
            columns = [places[id(candidate)] for candidate in live]
            live_totals = [candidate.total for candidate in live]
            empty = self._k - len(live)
            chosen.places[number] = torch.tensor(columns + [0] * empty, device=device)
            chosen.places_totals[number] = torch.tensor(live_totals + [-torch.inf] * empty, device=device)
            sentence = self._sentences[number]
            assert sentence is not None
            sentence.states = [candidate.state for candidate in live] + [START] * empty
        return chosen

    def _pool(self, number: int, log_probs: Tensor, totals: Tensor) -> list[_Candidate]:
        """Return the candidates of a sentence in order: log_probs (k, v), totals (k,)."""
        sentence = self._sentences[number]
        assert sentence is not None
        best = top(log_probs, min(2 * self._k, log_probs.shape[1]))  # (k, 2k)
        pairs = [
            (parent, token)
            for parent, tokens in enumerate(best.tolist())
            for token in sorted({*tokens, *sentence.terms.advancing(sentence.states[parent][1])})
        ]
        parents, tokens = torch.tensor(pairs, device=log_probs.device).T
        token_log_probs = log_probs[parents, tokens]
        sums = totals[parents] + token_log_probs
        candidates = []
        for (parent, token), log_prob, total in zip(pairs, token_log_probs.tolist(), sums.tolist(), strict=True):
            if not -torch.inf < total < torch.inf:
                continue
            state = sentence.states[parent]
            if token != self._eos:
                state = sentence.terms.next(state, token, self._continues(token))
            candidates.append(_Candidate(parent, token, log_prob, total, state, sentence.terms.left(state)))
        return sorted(candidates, key=_order)

    def _advancing(self, sentence: _Sentence, state: State, left: int) -> list[int]:
        """Return the tokens after which fewer tokens are missing than `left`."""
        terms = sentence.terms
        return [
            token
            for token in terms.advancing(state[1])
            if terms.left(terms.next(state, token, self._continues(token))) < left
        ]

    def _continues(self, token: int) -> bool:
        return bool(self._continuing) and bool(self._continuing[token])


def _order(candidate: _Candidate) -> tuple[float, int, int]:
    return -candidate.total, candidate.parent, candidate.token


def _select(
    pool: Sequence[_Candidate], k: int, eos: int, *, any_finished: bool
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Return the candidates that stay live and those that are finished, each best first; `pool` is in order.

    A candidate that ends is finished if it is among the best of its bank, as many as the bank has live ones and the
    beam has empty places. At the length limit all candidates end: then those with the fewest missing tokens are
    finished, and where some are missing only if nothing else is finished.
    """
    ranks: Counter[int] = Counter()
    ranked = []
    for candidate in pool:
        if candidate.token != eos:
            ranked.append((ranks[candidate.left], candidate.left, candidate))
            ranks[candidate.left] += 1
    live = [candidate for _, _, candidate in sorted(ranked, key=lambda each: each[:2])[:k]]
    live.sort(key=_order)
    shares = Counter(candidate.left for candidate in live)
    fewest = min((candidate.left for candidate in pool), default=0)
    before: Counter[int] = Counter()
    ends = []
    for candidate in pool:
        bank = candidate.left
        if candidate.token == eos and (bank == 0 or not any_finished):
            share = max(1, shares[bank] + k - len(live))
            among_best = before[bank] < share if live else bank == fewest
            if among_best and len(ends) < k:
                ends.append(candidate)
        before[bank] += 1
    return live, ends

"""Beam search; greedy search is the special case of beam size 1, and sampling replaces the selection by random draws.

The beam contains the k best hypotheses of a sentence (section 6.1 of the paper: k = 4). At every step each of
them is continued by every token; the k likeliest continuations that don't end stay live, and those that end *and*
are among the k likeliest of all are finished. Finished hypotheses are ranked by

    score(Y) = log P(Y | X) / lp(Y),    lp(Y) = ((5 + |Y|) / 6)^alpha

(Wu et al. 2016, "Google's neural machine translation system", equation 14), where |Y| counts the output's
subwords, the end symbol included. A sentence's search ends when `patience * beam` hypotheses are finished
or, with the same result, as soon as no live hypothesis can beat the n-th best finished one: log P only decreases
as a hypothesis grows, so its best possible score is its log P ≤ 0 over the largest length penalty within
the limit. A hypothesis that reaches the limit, |Y| ≤ length_factor · |X| + extra_length with both end symbols
counted, is finished with the end symbol at the probability that the model gives it there; so every score equals the
score of the same tokens in forced decoding.

Shapes: n unfinished sentences, k hypotheses each, v vocabulary, t tokens so far, m candidates of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headwise.decoding.beam_tree import BeamTrace
from headwise.decoding.constraints import Constraints
from headwise.decoding.sampling import draw, shaped, uniforms
from headwise.decoding.selection import Candidates, best_continuations
from headwise.decoding.term_placing import Placing
from headwise.engine.hypotheses import Hypothesis, length_penalty
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.errors import CheckpointError
from headwise.models.base import Seq2Seq


@torch.inference_mode()
def search(
    model: Seq2Seq,
    source: Tensor,
    mask: Tensor,
    options: SearchOptions,
    symbols: Symbols,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    listed: Tensor | None = None,
    terms: Sequence[Terms | None] | None = None,
    trace: BeamTrace | None = None,
    given_up: Callable[[int], bool] | None = None,
) -> list[list[Hypothesis]]:
    """Decode a batch of sentences by beam search or sampling.

    `source` and `mask` are (sentences, length); sources end with the end symbol and `mask` is True on real
    tokens. `prefixes` are the target ids with which each sentence's outputs must begin; they count in the score
    like any other token. `listed` (sentences, v) is True on the tokens of each sentence's shortlist, which contains
    the end symbol; probabilities are then normalized over the shortlist. `terms` are what each sentence's outputs must
    contain (see `headwise.decoding.term_placing`), not when sampling. The tensor that `model.step` returns is
    overwritten. `trace` records the beam tree. `given_up` is asked before every step whether sentence i is no longer
    wanted; such a sentence leaves the batch and may have no hypotheses.

    Returns up to `n_best` hypotheses for each sentence, in the order of `source`: by score, best first, or
    when sampling in the order drawn. Raises `CheckpointError` where the model's probabilities are not
    numbers.
    """
    k = options.rows
    constraints = Constraints(options, symbols, mask.sum(1), prefixes, terms)
    placing = None
    if terms is not None and any(each is not None for each in terms):
        assert not options.sample
        placing = Placing(terms, k, symbols.eos, symbols.continuing)
    live = _Live(len(source), k, options.sample, source.device)
    finished = _Finished(len(source), options, source.device)
    state = model.start(model.encode(source, mask), k, constraints.capacity)
    previous = torch.full((len(source) * k,), symbols.bos, device=source.device)
    random_numbers = (
        _draw_random_numbers(source, mask, options, constraints.capacity) if options.sample else None
    )
    while True:
        step = live.tokens.shape[-1]
        log_probs, state = model.step(previous, state)  # (n·k, v)
        log_probs = log_probs.view(len(live.sentences), k, -1)
        if listed is not None:
            log_probs = log_probs.masked_fill(~listed[live.sentences, None], -torch.inf).log_softmax(-1)
        constraints.apply(log_probs, live.tokens)
        if placing is not None:
            placing.restrict(log_probs, step, constraints.limits)
        if random_numbers is not None:
            chosen = _sample(log_probs, live.totals, random_numbers[:, :, step], options, symbols.eos)
        else:
            chosen = _continue(log_probs, live.totals, symbols.eos)
        if placing is not None:
            chosen = placing.choose(chosen, log_probs, live.totals, finished.count[live.sentences])
        finished.add(live, chosen, step + 1, symbols.eos)
        if trace is not None:
            trace.record(live.sentences, chosen, step + 1)
        parents = live.advance(chosen)
        undecided = finished.undecided(live, constraints.limits)
        if given_up is not None:
            undecided &= ~torch.tensor([given_up(i) for i in live.sentences.tolist()], device=source.device)
        unfinished = undecided.nonzero()[:, 0]
        if not len(unfinished):
            return finished.hypotheses(given_up)
        if len(unfinished) < len(live.sentences):
            live.keep(unfinished)
            constraints.keep(unfinished)
            if placing is not None:
                placing.keep(unfinished)
            state = state.keep(unfinished)
            parents = parents[unfinished]
            random_numbers = random_numbers[unfinished] if random_numbers is not None else None
        if k > 1 and not options.sample and step > 0:  # at step 0 all states of a sentence are equal
            first_beam = k * torch.arange(len(unfinished), device=unfinished.device)[:, None]  # (n, 1)
            state = state.reorder((first_beam + parents).flatten())
        previous = live.tokens[..., -1].flatten()


def damaged_model_error(number: int) -> CheckpointError:
    """Return the error for sentence `number` of a batch (from 1), of which no hypothesis could be finished."""
    return CheckpointError(
        f"sentence {number} of the batch: expected probabilities from the model, "
        "found values that aren't finite numbers; its parameters are damaged"
    )


def _continue(log_probs: Tensor, totals: Tensor, eos: int) -> Candidates:
    """Select the 2k best continuations: at most k of them end, so at least k stay live."""
    k = totals.shape[1]
    continued_totals, parents, tokens = best_continuations(log_probs, totals, 2 * k)
    gains = log_probs.flatten(1).gather(1, parents * log_probs.shape[-1] + tokens)
    is_end = tokens == eos
    live_candidates = is_end.to(torch.uint8).argsort(dim=1, stable=True)[:, :k]  # those that don't end first
    live_totals = continued_totals.masked_fill(is_end, -torch.inf).gather(1, live_candidates)
    ends = is_end & continued_totals.isfinite()
    ends[:, k:] = False
    return Candidates(parents, tokens, gains, continued_totals, ends, live_candidates, live_totals)


def _sample(
    log_probs: Tensor, totals: Tensor, numbers: Tensor, options: SearchOptions, eos: int
) -> Candidates:
    """Continue every hypothesis by one token drawn with `numbers` (n, k)."""
    probabilities, tokens = shaped(log_probs, options.temperature, options.top_k, options.top_p)
    tokens = tokens.gather(-1, draw(probabilities, numbers)[..., None])[..., 0]
    gains = log_probs.gather(-1, tokens[..., None])[..., 0]
    continued_totals = totals + gains
    beam_indices = torch.arange(totals.shape[1], device=totals.device).expand_as(totals)
    is_end = tokens == eos
    live_totals = continued_totals.masked_fill(is_end, -torch.inf)
    return Candidates(
        beam_indices,
        tokens,
        gains,
        continued_totals,
        is_end & continued_totals.isfinite(),
        beam_indices,
        live_totals,
    )


def _draw_random_numbers(source: Tensor, mask: Tensor, options: SearchOptions, steps: int) -> Tensor:
    sentences = [ids[real].tolist() for ids, real in zip(source.cpu(), mask.cpu(), strict=True)]
    return uniforms(sentences, options.n_best, steps, options.seed).to(source.device)


class _Live:
    """The live hypotheses of the unfinished sentences."""

    def __init__(self, sentences: int, k: int, sample: bool, device: torch.device) -> None:
        self.sentences = torch.arange(sentences, device=device)  # (n,)
        self.tokens = torch.empty(sentences, k, 0, dtype=torch.long, device=device)  # (n, k, t)
        self.gains = torch.empty(sentences, k, 0, device=device)  # (n, k, t)
        self.totals = torch.zeros(sentences, k, device=device)  # (n, k)
        if not sample:
            self.totals[:, 1:] = -torch.inf  # start with one empty hypothesis, not with k equal ones

    def advance(self, chosen: Candidates) -> Tensor:
        """Replace the live hypotheses by the chosen continuations; returns the indices of their parents (n, k)."""
        parents = chosen.parents.gather(1, chosen.places)
        history = parents[..., None].expand_as(self.tokens)
        tokens = chosen.tokens.gather(1, chosen.places)[..., None]
        gains = chosen.gains.gather(1, chosen.places)[..., None]
        self.tokens = torch.cat([self.tokens.gather(1, history), tokens], dim=-1)
        self.gains = torch.cat([self.gains.gather(1, history), gains], dim=-1)
        self.totals = chosen.places_totals
        return parents

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, given as row indices."""
        self.sentences = self.sentences[sentences]
        self.tokens = self.tokens[sentences]
        self.gains = self.gains[sentences]
        self.totals = self.totals[sentences]


class _Finished:
    """The finished hypotheses of all sentences; they stay on the device until the search ends."""

    def __init__(self, sentences: int, options: SearchOptions, device: torch.device) -> None:
        self.options = options
        self.best = torch.full((sentences, options.n_best), -torch.inf, device=device)  # best scores so far
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)
        self._chunks: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # sentence, column, tokens, gains

    def add(self, live: _Live, chosen: Candidates, length: int, eos: int) -> None:
        """Add the hypotheses that end at this step, with |Y| = `length`."""
        rows, columns = chosen.ends.nonzero(as_tuple=True)
        if not len(rows):
            return
        scores = chosen.totals / length_penalty(length, self.options.alpha)
        scores = scores.masked_fill(~chosen.ends, -torch.inf)
        all_scores = torch.cat([self.best[live.sentences], scores], dim=1)
        self.best[live.sentences] = all_scores.topk(self.options.n_best, dim=1).values
        self.count[live.sentences] += chosen.ends.sum(1)
        parents = chosen.parents[rows, columns]
        gains = torch.cat([live.gains[rows, parents], chosen.gains[rows, columns, None]], dim=1)
        self._chunks.append((live.sentences[rows], columns, live.tokens[rows, parents], gains))

    def undecided(self, live: _Live, limits: Tensor) -> Tensor:
        """Return for each unfinished sentence (n,) whether its search continues; `limits` (n,) bound |Y|."""
        best_reachable = live.totals.amax(1)
        if self.options.sample:
            return best_reachable > -torch.inf
        best_reachable = best_reachable / length_penalty(limits, self.options.alpha)
        enough_finished = self.count[live.sentences] >= self.options.patience * self.options.beam
        return (best_reachable > self.best[live.sentences, -1]) & ~enough_finished

    def hypotheses(self, given_up: Callable[[int], bool] | None) -> list[list[Hypothesis]]:
        """Return the best hypotheses of every sentence.

        Raises `CheckpointError` where a sentence has none, unless it was given up.
        """
        finished: list[list[tuple[int, Hypothesis]]] = [[] for _ in range(len(self.count))]
        for chunk in self._chunks:
            for sentence, column, tokens, gains in zip(*(part.tolist() for part in chunk), strict=True):
                log_probability = sum(gains)
                score = log_probability / length_penalty(len(gains), self.options.alpha)
                hypothesis = Hypothesis(tuple(tokens), log_probability, score, tuple(gains))
                finished[sentence].append((column, hypothesis))
        results = []
        for number, entries in enumerate(finished, start=1):
            if not entries and not (given_up is not None and given_up(number - 1)):
                raise damaged_model_error(number)
            if self.options.sample:
                entries.sort(key=lambda entry: entry[0])
            else:
                entries.sort(key=lambda entry: -entry[1].score)  # stable: the earlier one wins a tie
            results.append([hypothesis for _, hypothesis in entries[: self.options.n_best]])
        return results

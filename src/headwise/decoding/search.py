"""Beam search; greedy search is the special case of beam size 1, and sampling replaces the selection by random draws.

The beam contains the k best hypotheses of a sentence (section 6.1 of the paper: k = 4). At every step each of
them is continued by every token; the k likeliest continuations that don't end stay live, and those that end *and*
are among the k likeliest of all are finished. Finished hypotheses are ranked by

    score(Y) = log P(Y | X) / lp(Y),    lp(Y) = ((5 + |Y|) / 6)^alpha

(Wu et al. 2016, "Google's neural machine translation system", equation 14), where |Y| counts the output's subwords,
the end symbol included. A sentence's search ends when `patience * beam` hypotheses are finished and no live one is
likelier than all of them. It ends, too, with the same result, as soon as no live hypothesis can beat the n-th best
finished one: log P only decreases as a hypothesis grows, so its best possible score is its log P ≤ 0 over the largest
length penalty within the limit. A hypothesis that reaches the limit, |Y| ≤ length_factor · |X| + extra_length with
both end symbols counted, is finished with the end symbol at the probability that the model gives it there; so every
score equals the score of the same tokens in forced decoding.

Shapes: n unfinished sentences, k hypotheses each, v vocabulary, t tokens so far, m candidates of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from headwise.decoding.batching import padded
from headwise.decoding.beam_tree import BeamTrace
from headwise.decoding.constraints import AllowedIds, Constraint, OutputRules
from headwise.decoding.sampling import draw, shaped
from headwise.decoding.selection import Candidates, best_continuations
from headwise.decoding.term_placing import TermPlacing
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis, damaged_model_error, length_penalty
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.uniforms import uniforms
from headwise.models.base import Seq2Seq


@torch.inference_mode()
def search(
    model: Seq2Seq,
    sentences: Sequence[SearchSentence],
    symbols: Symbols,
    *,
    trace: BeamTrace | None = None,
    given_up: Callable[[int], bool] | None = None,
) -> list[list[Hypothesis]]:
    """Decode a batch of sentences of one kind by beam search or sampling.

    The tensor that `model.step` returns is overwritten. `trace` records the beam tree. `given_up` is asked before every
    step whether sentence i is no longer wanted; such a sentence leaves the batch and may have no hypotheses.

    Returns up to `n_best` hypotheses for each sentence, in their order: by score, best first, or when sampling in the
    order drawn. Raises `CheckpointError` where the model's probabilities are not numbers.
    """
    options, device = sentences[0].options, model.device
    k = options.rows
    limits = torch.tensor(
        [each.limit(len(symbols.beginning(each.prefix))) for each in sentences], device=device
    )  # (n,), of |Y|
    constraints, placing = _constraints(model, sentences, symbols, limits)
    live = _Live(len(sentences), k, options.sample, device)
    finished = _Finished(len(sentences), options, device)
    source, mask = padded([sentence.source for sentence in sentences], symbols.pad, device)
    state = model.start(model.encode(source, mask), k)
    previous = torch.full((len(sentences) * k,), symbols.bos, device=device)
    random_numbers = None
    if options.sample:
        steps = int(limits.max())
        numbers = [uniforms(sentence.source, options.n_best, steps, options.seed) for sentence in sentences]
        random_numbers = torch.from_numpy(np.stack(numbers)).to(device)
    while True:
        step = live.tokens.shape[-1]
        log_probs, state = model.step(previous, state)  # (n·k, v)
        log_probs = log_probs.view(len(live.sentences), k, -1)
        for constraint in constraints:
            log_probs = constraint.apply(log_probs, live.tokens)
        if random_numbers is not None:
            chosen = _sample(log_probs, live.totals, random_numbers[:, :, step], options, symbols.eos)
        else:
            chosen = _continue(log_probs, live.totals, symbols.eos)
        if placing is not None:
            chosen = placing.choose(chosen, log_probs, live.totals, finished.count[live.sentences])
        finished.add(live, chosen, step + 1)
        if trace is not None:
            trace.record(live.sentences, chosen, step + 1)
        parents = live.advance(chosen)
        undecided = finished.undecided(live, limits)
        if given_up is not None:
            undecided &= ~torch.tensor([given_up(i) for i in live.sentences.tolist()], device=device)
        unfinished = undecided.nonzero()[:, 0]
        if not len(unfinished):
            return finished.hypotheses(given_up)
        if len(unfinished) < len(live.sentences):
            live.keep(unfinished)
            for constraint in constraints:
                constraint.keep(unfinished)
            limits = limits[unfinished]
            state = state.keep(unfinished)
            parents = parents[unfinished]
            random_numbers = random_numbers[unfinished] if random_numbers is not None else None
        if k > 1 and not options.sample and step > 0:  # at step 0 all states of a sentence are equal
            first_beam = k * torch.arange(len(unfinished), device=device)[:, None]  # (n, 1)
            state = state.reorder((first_beam + parents).flatten())
        previous = live.tokens[..., -1].flatten()


def _constraints(
    model: Seq2Seq, sentences: Sequence[SearchSentence], symbols: Symbols, limits: Tensor
) -> tuple[list[Constraint], TermPlacing | None]:
    """Return the constraints in the order in which they are applied, and the one that places terms."""
    constraints: list[Constraint] = []
    if sentences[0].allowed is not None:
        constraints.append(AllowedIds(sentences, model.target_size, limits.device))
    constraints.append(OutputRules(sentences, symbols, limits))
    if all(sentence.terms is None for sentence in sentences):
        return constraints, None
    placing = TermPlacing([sentence.terms for sentence in sentences], sentences[0].options.beam, symbols, limits)
    return [*constraints, placing], placing


def _continue(log_probs: Tensor, totals: Tensor, eos: int) -> Candidates:
    """Select the 2k best continuations: at most k of them end, so at least k stay live."""
    k = totals.shape[1]
    continued_totals, parents, tokens = best_continuations(log_probs, totals, 2 * k)
    token_log_probs = log_probs.flatten(1).gather(1, parents * log_probs.shape[-1] + tokens)
    is_end = tokens == eos
    live_candidates = is_end.to(torch.uint8).argsort(dim=1, stable=True)[:, :k]  # those that don't end first
    live_totals = continued_totals.masked_fill(is_end, -torch.inf).gather(1, live_candidates)
    ends = is_end & continued_totals.isfinite()
    ends[:, k:] = False
    return Candidates(parents, tokens, token_log_probs, continued_totals, ends, live_candidates, live_totals)


def _sample(log_probs: Tensor, totals: Tensor, numbers: Tensor, options: SearchOptions, eos: int) -> Candidates:
    """Continue every hypothesis by one token drawn with `numbers` (n, k)."""
    probabilities, tokens = shaped(log_probs, options.temperature, options.top_k, options.top_p)
    tokens = tokens.gather(-1, draw(probabilities, numbers)[..., None])[..., 0]
    token_log_probs = log_probs.gather(-1, tokens[..., None])[..., 0]
    continued_totals = totals + token_log_probs
    beam_indices = torch.arange(totals.shape[1], device=totals.device).expand_as(totals)
    is_end = tokens == eos
    live_totals = continued_totals.masked_fill(is_end, -torch.inf)
    return Candidates(
        beam_indices,
        tokens,
        token_log_probs,
        continued_totals,
        is_end & continued_totals.isfinite(),
        beam_indices,
        live_totals,
    )


class _Live:
    """The live hypotheses of the unfinished sentences."""

    def __init__(self, sentences: int, k: int, sample: bool, device: torch.device) -> None:
        self.sentences = torch.arange(sentences, device=device)  # (n,)
        self.tokens = torch.empty(sentences, k, 0, dtype=torch.long, device=device)  # (n, k, t)
        self.token_log_probs = torch.empty(sentences, k, 0, device=device)  # (n, k, t)
        self.totals = torch.zeros(sentences, k, device=device)  # (n, k)
        if not sample:
            self.totals[:, 1:] = -torch.inf  # start with one empty hypothesis, not with k equal ones

    def advance(self, chosen: Candidates) -> Tensor:
        """Replace the live hypotheses by the chosen continuations; returns the indices of their parents (n, k)."""
        parents = chosen.parents.gather(1, chosen.places)
        history = parents[..., None].expand_as(self.tokens)
        tokens = chosen.tokens.gather(1, chosen.places)[..., None]
        token_log_probs = chosen.token_log_probs.gather(1, chosen.places)[..., None]
        self.tokens = torch.cat([self.tokens.gather(1, history), tokens], dim=-1)
        self.token_log_probs = torch.cat([self.token_log_probs.gather(1, history), token_log_probs], dim=-1)
        self.totals = chosen.places_totals
        return parents

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, given as row indices."""
        self.sentences = self.sentences[sentences]
        self.tokens = self.tokens[sentences]
        self.token_log_probs = self.token_log_probs[sentences]
        self.totals = self.totals[sentences]


class _Finished:
    """The finished hypotheses of all sentences; they stay on the device until the search ends."""

    def __init__(self, sentences: int, options: SearchOptions, device: torch.device) -> None:
        self.options = options
        self.best = torch.full((sentences, options.n_best), -torch.inf, device=device)  # best scores so far
        self.likeliest = torch.full((sentences,), -torch.inf, device=device)  # log P of the likeliest so far
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)
        # Sentences, columns, tokens and log-probabilities of tokens.
        self._chunks: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def add(self, live: _Live, chosen: Candidates, length: int) -> None:
        """Add the hypotheses that end at this step, with |Y| = `length`."""
        rows, columns = chosen.ends.nonzero(as_tuple=True)
        if not len(rows):
            return
        scores = chosen.totals / length_penalty(length, self.options.alpha)
        scores = scores.masked_fill(~chosen.ends, -torch.inf)
        all_scores = torch.cat([self.best[live.sentences], scores], dim=1)
        self.best[live.sentences] = all_scores.topk(self.options.n_best, dim=1).values
        totals = chosen.totals.masked_fill(~chosen.ends, -torch.inf).amax(1)
        self.likeliest[live.sentences] = self.likeliest[live.sentences].maximum(totals)
        self.count[live.sentences] += chosen.ends.sum(1)
        parents = chosen.parents[rows, columns]
        token_log_probs = torch.cat(
            [live.token_log_probs[rows, parents], chosen.token_log_probs[rows, columns, None]], dim=1
        )
        self._chunks.append((live.sentences[rows], columns, live.tokens[rows, parents], token_log_probs))

    def undecided(self, live: _Live, limits: Tensor) -> Tensor:
        """Return for each unfinished sentence (n,) whether its search continues; `limits` (n,) bound |Y|."""
        likeliest = live.totals.amax(1)
        if self.options.sample:
            return likeliest > -torch.inf
        may_enter = likeliest / length_penalty(limits, self.options.alpha) > self.best[live.sentences, -1]
        few = self.count[live.sentences] < self.options.patience * self.options.beam
        return may_enter & (few | (likeliest > self.likeliest[live.sentences]))

    def hypotheses(self, given_up: Callable[[int], bool] | None) -> list[list[Hypothesis]]:
        """Return the best hypotheses of every sentence.

        Raises `CheckpointError` where a sentence has none, unless it was given up.
        """
        finished: list[list[tuple[int, Hypothesis]]] = [[] for _ in range(len(self.count))]
        for chunk in self._chunks:
            for sentence, column, tokens, token_log_probs in zip(*(part.tolist() for part in chunk), strict=True):
                hypothesis = Hypothesis.scored(tokens, token_log_probs, self.options.alpha)
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

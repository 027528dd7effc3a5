"""Constraints on hypotheses: banned symbols, length limits, no repeated n-grams, forced prefixes.

A constraint sets log-probabilities to -inf before the search chooses; it never rescales the others, so a
hypothesis keeps the log-probability that the model gives it.

Shapes: n sentences, k hypotheses each, v vocabulary, t tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms


class Constraints:
    """Constraints of the sentences that are not finished."""

    def __init__(
        self,
        options: SearchOptions,
        symbols: Symbols,
        source_lengths: Tensor,
        prefixes: Sequence[Sequence[int]] | None = None,
        terms: Sequence[Terms | None] | None = None,
    ) -> None:
        """`source_lengths` (n,) count the end symbol; `prefixes` are one list of target ids for each sentence.

        The limits leave room for the prefixes and `terms`.
        """
        device = source_lengths.device
        limits = torch.tensor(list(map(options.limit, source_lengths.tolist())), device=device)
        self.prefixes = torch.empty(len(limits), 0, dtype=torch.long, device=device)
        if prefixes is None and symbols.given:
            prefixes = [symbols.given[:1]] * len(limits)
        if prefixes is not None:
            longest = max(map(len, prefixes), default=0)
            padded = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
            self.prefixes = torch.tensor(padded, dtype=torch.long, device=device).view(len(limits), longest)
        needed = (self.prefixes >= 0).sum(1) + 1
        if terms is not None:
            needed += torch.tensor([0 if each is None else each.length for each in terms], device=device)
        limits = torch.maximum(limits, needed)
        self.limits = limits
        self.capacity = int(limits.max())  # largest number of decoding steps
        self._shortest = int(limits.min())
        self._min_length = options.min_length
        self._ngram = options.no_repeat_ngram
        self._eos = symbols.eos
        self._pad = symbols.pad
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        self._banned = torch.tensor(banned, device=device)
        self._given = torch.tensor(symbols.given, dtype=torch.long, device=device)

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, in this order."""
        self.limits = self.limits[sentences]
        self._shortest = int(self.limits.min())
        self.prefixes = self.prefixes[sentences]

    def apply(self, log_probs: Tensor, tokens: Tensor) -> None:
        """Set the log-probabilities of disallowed next tokens to -inf, in place.

        `log_probs` is (n, k, v), `tokens` (n, k, t). A forced prefix overrides every other constraint. A hypothesis
        ends where the ban of repeated n-grams leaves no token.
        """
        step = tokens.shape[-1]
        if step >= self.prefixes.shape[1]:
            self._restrict(log_probs, tokens)
            return
        forced = self.prefixes[:, step, None, None]  # (n, 1, 1), -1 after the end of the prefix
        column = forced.clamp(min=0).expand(-1, log_probs.shape[1], -1)
        forced_log_probs = log_probs.gather(-1, column)
        if step == 0:
            forced_log_probs.masked_fill_(torch.isin(forced, self._given), 0.0)
        self._restrict(log_probs, tokens)
        log_probs.masked_fill_(forced >= 0, -torch.inf)
        log_probs.scatter_(
            -1, column, torch.where(forced >= 0, forced_log_probs, log_probs.gather(-1, column))
        )

    def _restrict(self, log_probs: Tensor, tokens: Tensor) -> None:
        step = tokens.shape[-1]
        log_probs.index_fill_(-1, self._banned, -torch.inf)
        end = log_probs[..., self._eos].clone()
        if step < self._min_length:
            log_probs[..., self._eos] = -torch.inf
        if 0 < self._ngram <= step:
            self._ban_repeats(log_probs, tokens)
            stuck = log_probs.amax(-1) == -torch.inf
            log_probs[..., self._eos] = torch.where(stuck, end, log_probs[..., self._eos])
        if step + 1 >= self._shortest:
            last = (self.limits <= step + 1)[:, None]
            log_probs.masked_fill_(last[..., None], -torch.inf)
            log_probs[..., self._eos] = torch.where(last, end, log_probs[..., self._eos])

    def _ban_repeats(self, log_probs: Tensor, tokens: Tensor) -> None:
        """Ban every token that would complete an n-gram that the hypothesis already contains."""
        size = self._ngram
        seen = tokens.unfold(-1, size, 1)  # (n, k, t - size + 1, size)
        suffix = tokens[..., tokens.shape[-1] - size + 1 :]  # (n, k, size - 1)
        repeated = (seen[..., :-1] == suffix[:, :, None]).all(-1)
        column = torch.where(repeated, seen[..., -1], self._pad)
        log_probs.scatter_(-1, column, -torch.inf)

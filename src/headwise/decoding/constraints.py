"""Constraints on hypotheses: the shortlist, banned symbols, length limits, no repeated n-grams, forced prefixes.

A constraint sets log-probabilities to -inf before the search chooses. Only a shortlist rescales the others, so
otherwise a hypothesis keeps the log-probability that the model gives it. The terms of a glossary are another constraint
(`headwise.decoding.term_placing`).

Shapes: n sentences, k hypotheses each, v vocabulary, t tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from headwise.engine.base import SearchSentence
from headwise.engine.symbols import Symbols


class Constraint(Protocol):
    """What a search applies to the log-probabilities of every step, in the place of a logits processor."""

    def apply(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Return the log-probabilities (n, k, v) after `tokens` (n, k, t); the argument may be overwritten."""
        ...

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, in this order."""
        ...


class AllowedIds:
    """The target ids that are allowed; probabilities are normalized over these."""

    def __init__(self, sentences: Sequence[SearchSentence], size: int, device: torch.device) -> None:
        """`size` is that of the target vocabulary; all sentences have allowed ids."""
        allowed = torch.zeros(len(sentences), size, dtype=torch.bool)
        for row, sentence in enumerate(sentences):
            ids = sentence.all_allowed
            assert ids is not None
            allowed[row, torch.from_numpy(ids).long()] = True
        self._allowed = allowed.to(device)  # (n, v)

    def apply(self, log_probs: Tensor, tokens: Tensor) -> Tensor:  # noqa: D102
        return log_probs.masked_fill(~self._allowed[:, None], -torch.inf).log_softmax(-1)

    def keep(self, sentences: Tensor) -> None:  # noqa: D102
        self._allowed = self._allowed[sentences]


class OutputRules:
    """Banned symbols, length limits, a letter in every output, no repeated n-grams, and forced prefixes.

    These override all others.
    """

    def __init__(self, sentences: Sequence[SearchSentence], symbols: Symbols, limits: Tensor) -> None:
        """`limits` (n,) bound |Y|; the sentences have equal options."""
        device, options = limits.device, sentences[0].options
        prefixes = [symbols.beginning(sentence.prefix) for sentence in sentences]
        longest = max(map(len, prefixes))
        padded = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
        self._prefixes = torch.tensor(padded, dtype=torch.long, device=device).view(len(limits), longest)
        self._limits = limits
        self._shortest = int(limits.min())
        self._min_length = options.min_length
        self._ngram = options.no_repeat_ngram
        self._eos = symbols.eos
        self._pad = symbols.pad
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        self._banned = torch.tensor(banned, device=device)
        self._given = torch.tensor(symbols.given, dtype=torch.long, device=device)
        self._needy = torch.tensor([sentence.lettered for sentence in sentences], device=device)[:, None]
        self._lettered = torch.tensor(list(symbols.lettered), dtype=torch.bool, device=device)  # (v,)
        self._some_lack = any(sentence.lettered for sentence in sentences)

    def keep(self, sentences: Tensor) -> None:
        """Keep only these sentences, in this order."""
        self._limits = self._limits[sentences]
        self._shortest = int(self._limits.min())
        self._prefixes = self._prefixes[sentences]
        self._needy = self._needy[sentences]

    def apply(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Set the log-probabilities of disallowed next tokens to -inf, in place.

        `log_probs` is (n, k, v), `tokens` (n, k, t). A forced prefix overrides every other constraint. A hypothesis
        ends where the ban of repeated n-grams, or the letter that it lacks, leaves no token.
        """
        step = tokens.shape[-1]
        if step >= self._prefixes.shape[1]:
            self._restrict(log_probs, tokens)
            return log_probs
        forced = self._prefixes[:, step, None, None]  # (n, 1, 1), -1 after the end of the prefix
        column = forced.clamp(min=0).expand(-1, log_probs.shape[1], -1)
        forced_log_probs = log_probs.gather(-1, column)
        if step == 0:
            forced_log_probs.masked_fill_(torch.isin(forced, self._given), 0.0)
        self._restrict(log_probs, tokens)
        log_probs.masked_fill_(forced >= 0, -torch.inf)
        log_probs.scatter_(-1, column, torch.where(forced >= 0, forced_log_probs, log_probs.gather(-1, column)))
        return log_probs

    def _restrict(self, log_probs: Tensor, tokens: Tensor) -> None:
        step = tokens.shape[-1]
        log_probs.index_fill_(-1, self._banned, -torch.inf)
        end = log_probs[..., self._eos].clone()
        if step < self._min_length:
            log_probs[..., self._eos] = -torch.inf
        may_be_stuck = lacking = self._lacking(tokens)
        if lacking is not None:
            self._demand_letter(log_probs, lacking, step)
        if 0 < self._ngram <= step:
            self._ban_repeats(log_probs, tokens)
            may_be_stuck = torch.ones_like(end, dtype=torch.bool)
        if may_be_stuck is not None:
            stuck = may_be_stuck & (log_probs.amax(-1) == -torch.inf)
            log_probs[..., self._eos] = torch.where(stuck, end, log_probs[..., self._eos])
        if step + 1 >= self._shortest:
            last = (self._limits <= step + 1)[:, None]
            log_probs.masked_fill_(last[..., None], -torch.inf)
            log_probs[..., self._eos] = torch.where(last, end, log_probs[..., self._eos])

    def _lacking(self, tokens: Tensor) -> Tensor | None:
        """Return which hypotheses (n, k) lack a letter or a digit that they need; None if none of them does."""
        if not self._some_lack:
            return None
        lacking = self._needy & ~self._lettered[tokens].any(-1)
        self._some_lack = bool(lacking.any())  # what continues one with a letter has one, too
        return lacking if self._some_lack else None

    def _demand_letter(self, log_probs: Tensor, lacking: Tensor, step: int) -> None:
        """Forbid the end of hypotheses without a letter, and at the last token before the limit all without one."""
        log_probs[..., self._eos].masked_fill_(lacking, -torch.inf)
        if step + 2 >= self._shortest:
            last = lacking & (self._limits <= step + 2)[:, None]
            log_probs.masked_fill_(last[..., None] & ~self._lettered, -torch.inf)

    def _ban_repeats(self, log_probs: Tensor, tokens: Tensor) -> None:
        """Ban every token that would complete an n-gram that the hypothesis already contains."""
        size = self._ngram
        seen = tokens.unfold(-1, size, 1)  # (n, k, t - size + 1, size)
        suffix = tokens[..., tokens.shape[-1] - size + 1 :]  # (n, k, size - 1)
        repeated = (seen[..., :-1] == suffix[:, :, None]).all(-1)
        column = torch.where(repeated, seen[..., -1], self._pad)
        log_probs.scatter_(-1, column, -torch.inf)

"""Hiding tokens for masked language modeling (Devlin et al. 2019, section 3.1), anew each time a text is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Vocabulary

MASK = "<mask>"


@dataclass(frozen=True)
class Masking:
    """Of the tokens, `share` are to be predicted; of those, `masked` read <mask>, and `random` read any token."""

    symbol: int  # id of <mask>
    first: int  # ids from here to `size` are ordinary
    size: int
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    @classmethod
    def of(cls, vocabulary: Vocabulary, *, share: float, masked: float, random: float) -> Masking:
        """Take the ids from a vocabulary that knows <mask>."""
        return cls(vocabulary.symbol(MASK), vocabulary.line_end, vocabulary.size, share, masked, random)

    def hide(
        self, ids: NDArray[Any], random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return BOS, the ids with some hidden, EOS; and the targets: the hidden ids, -1 elsewhere.

        At least one token is to be predicted; which are is a function of the generator's state and the length.
        """
        chosen = random.random(len(ids)) < self.share
        one, fate = random.integers(len(ids)), random.random(len(ids))
        if not chosen.any():
            chosen[one] = True
        other = random.integers(self.first, self.size, len(ids))
        inputs = np.full(len(ids) + 2, BOS, np.int64)
        targets = np.full(len(ids) + 2, -1, np.int64)
        inputs[-1], inside = EOS, slice(1, -1)
        targets[inside][chosen] = ids[chosen]
        inputs[inside] = np.where(
            chosen & (fate < self.masked),
            self.symbol,
            np.where(chosen & (fate >= 1 - self.random), other, ids),
        )
        return inputs, targets


def cut_documents(offsets: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Cut rows that end with EOS, which is left out, into parts of at most `length` ids; returns (start, end) of each.

    Parts of one row are equally long, or nearly so.
    """
    starts, ends = offsets[:-1], offsets[1:] - 1
    parts = np.maximum(-(-(ends - starts) // length), 0)
    row = np.repeat(np.arange(len(starts)), parts)
    number = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    lengths = (ends - starts)[row]
    bounds = [starts[row] + lengths * (number + more) // parts[row] for more in (0, 1)]
    return np.stack(bounds, axis=1)


def cut_running(tokens: int, length: int, shift: int = 0) -> NDArray[np.int64]:
    """Cut a running text into windows of `length` ids, the first `shift` long; returns (start, end) of each."""
    starts = np.unique(np.clip(np.arange(shift - length, tokens, length), 0, tokens))
    ends = np.append(starts[1:], tokens)
    return np.stack([starts, ends], axis=1)[starts < ends]

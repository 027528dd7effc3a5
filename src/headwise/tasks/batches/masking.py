"""Masking of tokens for masked language modeling (Devlin et al. 2019, section 3.1), resampled in every epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.text.tokens.subwords import BOS, EOS


@dataclass(frozen=True)
class Masking:
    """Masking rule: a `share` of the tokens is predicted; of these, `masked` become <mask>, `random` a random token."""

    symbol: int  # id of <mask>
    first: int  # first ordinary id; random tokens are drawn from here up to `size`
    size: int
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    def hide(self, ids: NDArray[Any], random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the inputs, BOS + masked ids + EOS, and the targets: the original ids where predicted, -1 elsewhere.

        At least one token is predicted; the choice depends on the generator's state and the length alone.
        """
        chosen = random.random(len(ids)) < self.share
        fallback, replacement_draw = random.integers(len(ids)), random.random(len(ids))
        if not chosen.any():
            chosen[fallback] = True
        random_ids = random.integers(self.first, self.size, len(ids))
        inputs = np.full(len(ids) + 2, BOS, np.int64)
        targets = np.full(len(ids) + 2, -1, np.int64)
        inputs[-1], inner = EOS, slice(1, -1)
        targets[inner][chosen] = ids[chosen]
        inputs[inner] = np.where(
            chosen & (replacement_draw < self.masked),
            self.symbol,
            np.where(chosen & (replacement_draw >= 1 - self.random), random_ids, ids),
        )
        return inputs, targets


def cut_documents(offsets: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Split documents into parts of at most `length` ids, without the final EOS; returns (start, end) of each part.

    The lengths of the parts of one document differ by at most 1.
    """
    starts, ends = offsets[:-1], offsets[1:] - 1
    parts = np.maximum(-(-(ends - starts) // length), 0)
    document = np.repeat(np.arange(len(starts)), parts)
    part_number = np.arange(len(document)) - np.repeat(np.cumsum(parts) - parts, parts)
    lengths = (ends - starts)[document]
    bounds = [starts[document] + lengths * (part_number + more) // parts[document] for more in (0, 1)]
    return np.stack(bounds, axis=1)


def cut_running(tokens: int, length: int, shift: int = 0) -> NDArray[np.int64]:
    """Split running text into windows of `length` ids, the first of `shift` ids; returns (start, end) of each."""
    starts = np.unique(np.clip(np.arange(shift - length, tokens, length), 0, tokens))
    ends = np.append(starts[1:], tokens)
    return np.stack([starts, ends], axis=1)[starts < ends]

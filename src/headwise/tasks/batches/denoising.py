"""Denoising objectives: T5's span corruption and BART's text infilling, and batches of both.

T5 (Raffel et al. 2020, section 3.1.4): each removed span is replaced by a unique sentinel; the target is every
sentinel, followed by the tokens it replaced, and a final sentinel. BART (Lewis et al. 2020, section 2.2): each span,
some of them empty, is replaced by one `<mask>`; the target is the whole text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config.tasks import DenoisingConfig
from headwise.data.stream import PlannedStream
from headwise.tasks.batches.examples import padded
from headwise.tasks.batches.pairs import Batch
from headwise.tasks.batches.windows import WindowBatch
from headwise.text.tokens.subwords import BOS, EOS, PAD

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Damage:
    """A corruption function; `symbols` are the ids of the sentinels, or of `<mask>` alone."""

    options: DenoisingConfig
    symbols: tuple[int, ...]

    def __call__(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Return the corrupted input and the target, both without BOS and EOS."""
        if self.options.corruption == "infilling":
            return infill(ids, self.symbols[0], self.options.share, self.options.mean_span, random)
        return corrupt_spans(ids, self.symbols, self.options.share, self.options.mean_span, random)


def symbol_names(options: DenoisingConfig, length: int) -> list[str]:
    """Return the names of the symbols that corrupting texts of up to `length` tokens needs."""
    if options.corruption == "infilling":
        return ["<mask>"]
    _, spans = _amounts(length, options.share, options.mean_span)
    return [f"<span{number}>" for number in range(spans + 1)]


def corrupt_spans(
    ids: Ids, sentinels: Sequence[int], share: float, mean_span: float, random: np.random.Generator
) -> tuple[Ids, Ids]:
    """Remove about `share` of the tokens, in non-adjacent spans of `mean_span` tokens on average (T5).

    The number of removed tokens and of spans depends on the number of ids alone; span lengths and positions are random.
    """
    removed, spans = _amounts(len(ids), share, mean_span)
    lengths = _parts(removed, spans, random)
    gaps = _parts(len(ids) - removed, spans, random)  # tokens kept before each span
    source, target, position = [], [], 0
    for sentinel, gap, length in zip(sentinels, gaps, lengths, strict=False):
        start = position + gap
        position = start + length
        source += [ids[start - gap : start], [sentinel]]
        target += [[sentinel], ids[start:position]]
    return np.concatenate(source).astype(np.int64), np.concatenate([*target, [sentinels[spans]]]).astype(np.int64)


def infill(ids: Ids, mask: int, share: float, mean_span: float, random: np.random.Generator) -> tuple[Ids, Ids]:
    """Replace spans with Poisson-distributed lengths, a `share` of the tokens in total, by one `mask` each (BART).

    A span of length 0 inserts a mask between two tokens. Spans are never adjacent, and the input is at most one token
    longer than the text.
    """
    remaining, lengths = round(share * len(ids)), list[int]()
    while remaining > 0:
        lengths.append(min(remaining, int(random.poisson(mean_span))))
        remaining -= lengths[-1]
    kept = len(ids) - sum(lengths)
    lengths = lengths[: kept + 1]  # at most one span per gap
    kept = len(ids) - sum(lengths)
    # As many masks more than removed tokens as fit into the model (see `Denoising.check`): one.
    for _ in range(len(lengths) + kept - len(ids) - 1):
        lengths.remove(0)
    gaps = np.sort(random.choice(kept + 1, len(lengths), replace=False))
    order = random.permutation(np.array(lengths, np.int64))
    source, position, last_gap = [], 0, 0
    for gap, length in zip(gaps.tolist(), order.tolist(), strict=True):
        source += [ids[position : position + gap - last_gap], [mask]]
        position, last_gap = position + gap - last_gap + length, gap
    return np.concatenate([*source, ids[position:]]).astype(np.int64), ids.astype(np.int64)


def _amounts(length: int, share: float, mean_span: float) -> tuple[int, int]:
    """Return the numbers of removed tokens and of spans, both at least 1, with room for a token between spans."""
    removed = min(max(round(length * share), 1), length - 1)
    return removed, max(1, min(round(removed / mean_span), length - removed, removed))


def _parts(total: int, parts: int, random: np.random.Generator) -> list[int]:
    """Split `total` into random parts of at least 1, uniformly over all compositions."""
    cuts = np.sort(random.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff([0, *cuts, total]).tolist()


def make_pairs(pairs: Sequence[tuple[Ids, Ids]], rows: list[int]) -> Batch:
    """Build a padded batch of (input, target) pairs; both sides end with EOS."""
    sources = [[*source, EOS] for source, _ in pairs]
    targets = [[*target, EOS] for _, target in pairs]
    source, target_output = padded(sources), padded(targets)
    target_input = target_output.roll(1, dims=1)
    target_input[:, 0] = BOS
    target_input[target_input == EOS] = PAD  # after the end of a shorter target there is padding
    return Batch(
        source=source,
        source_mask=torch.arange(source.size(1)) < torch.tensor([[len(row)] for row in sources]),
        target_input=target_input,
        target_output=target_output,
        rows=rows,
        target_tokens=sum(map(len, targets)),
    )


def denoising_stream(windows: PlannedStream[WindowBatch], damage: Damage) -> PlannedStream[Batch]:
    """Return batches of corrupted windows of a text; `rows` of a batch are their start positions in the text."""

    def make(epoch: int, starts: NDArray[np.int64], random: np.random.Generator) -> Batch:
        batch = windows.make(epoch, starts, random)
        return make_pairs([damage(ids, random) for ids in batch.outputs.numpy()], starts.tolist())

    return PlannedStream(windows.plan, make, identity=windows.identity, seed=windows.seed, name=windows.name)

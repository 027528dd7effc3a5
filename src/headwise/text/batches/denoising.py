"""Damaged text and what restores it: T5's span corruption and BART's infilling, and batches of both.

T5 (Raffel et al. 2020, section 3.1.4): spans are taken out, each replaced by a sentinel of its own; the target is every
sentinel, followed by what stood there, and a last sentinel. BART (Lewis et al. 2020, section 2.2): spans, some of them
empty, are replaced by one `<mask>` each; the target is the whole text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config.tasks import DenoisingConfig
from headwise.data.stream import Epoch, ResumableStream
from headwise.text.batches.examples import padded
from headwise.text.batches.pairs import Batch
from headwise.text.batches.windows import WindowBatch, WindowStream
from headwise.text.tokens.subwords import BOS, EOS, PAD

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Damage:
    """How a text is damaged; `symbols` are the ids of the sentinels, or of `<mask>` alone."""

    options: DenoisingConfig
    symbols: tuple[int, ...]

    def __call__(self, ids: Ids, random: np.random.Generator) -> tuple[Ids, Ids]:
        """Return the damaged text and what is to be predicted from it, both without special symbols."""
        if self.options.corruption == "infilling":
            return infill(ids, self.symbols[0], self.options.share, self.options.mean_span, random)
        return corrupt_spans(ids, self.symbols, self.options.share, self.options.mean_span, random)


def symbol_names(options: DenoisingConfig, length: int) -> list[str]:
    """Name the symbols that damaging texts of up to `length` tokens needs."""
    if options.corruption == "infilling":
        return ["<mask>"]
    _, spans = _amounts(length, options.share, options.mean_span)
    return [f"<span{number}>" for number in range(spans + 1)]


def corrupt_spans(
    ids: Ids, sentinels: Sequence[int], share: float, mean_span: float, random: np.random.Generator
) -> tuple[Ids, Ids]:
    """Take about `share` of the tokens out, in spans of `mean_span` on average that don't touch (T5).

    How many tokens and spans these are depends on the number of ids alone; how long each span is, and where, is drawn.
    """
    taken, spans = _amounts(len(ids), share, mean_span)
    lengths = _parts(taken, spans, random)
    between = _parts(len(ids) - taken, spans, random)  # what stands before each span
    source, target, place = [], [], 0
    for sentinel, before, length in zip(sentinels, between, lengths, strict=False):
        start = place + before
        place = start + length
        source += [ids[start - before : start], [sentinel]]
        target += [[sentinel], ids[start:place]]
    return np.concatenate(source).astype(np.int64), np.concatenate([*target, [sentinels[spans]]]).astype(
        np.int64
    )


def restore_spans(source: Sequence[int], target: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """Put the text together again: each sentinel of `source` is replaced by what follows it in `target`."""
    known, fillings, current = set(sentinels), dict[int, list[int]](), []
    for token in target:
        if token in known:
            current = fillings.setdefault(token, [])
        else:
            current.append(token)
    return [piece for token in source for piece in (fillings.get(token, []) if token in known else [token])]


def infill(
    ids: Ids, mask: int, share: float, mean_span: float, random: np.random.Generator
) -> tuple[Ids, Ids]:
    """Replace spans with lengths drawn from a Poisson distribution, `share` of the tokens in all, by `mask` (BART).

    A span of no tokens puts a mask between two tokens. Two spans never stand side by side.
    """
    wanted, lengths = round(share * len(ids)), list[int]()
    while wanted > 0:
        lengths.append(min(wanted, int(random.poisson(mean_span))))
        wanted -= lengths[-1]
    kept = len(ids) - sum(lengths)
    lengths = [*lengths][: kept + 1]  # as many as there are gaps to stand in
    kept = len(ids) - sum(lengths)
    gaps = np.sort(random.choice(kept + 1, len(lengths), replace=False))
    order = random.permutation(np.array(lengths, np.int64))
    source, place, before = [], 0, 0
    for gap, length in zip(gaps.tolist(), order.tolist(), strict=True):
        source += [ids[place : place + gap - before], [mask]]
        place, before = place + gap - before + length, gap
    return np.concatenate([*source, ids[place:]]).astype(np.int64), ids.astype(np.int64)


def _amounts(length: int, share: float, mean_span: float) -> tuple[int, int]:
    """How many of so many tokens are taken out, and in how many spans; at least one, and one between any two."""
    taken = min(max(round(length * share), 1), length - 1)
    return taken, max(1, min(round(taken / mean_span), length - taken, taken))


def _parts(total: int, parts: int, random: np.random.Generator) -> list[int]:
    """Divide a number into so many parts of at least 1, every way alike."""
    cuts = np.sort(random.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff([0, *cuts, total]).tolist()


def make_pairs(pairs: Sequence[tuple[Ids, Ids]], rows: list[int]) -> Batch:
    """Pad damaged texts and targets into a batch; an end symbol closes each."""
    sources = [[*source, EOS] for source, _ in pairs]
    targets = [[*target, EOS] for _, target in pairs]
    source, output = padded(sources), padded(targets)
    target_input = output.roll(1, dims=1)
    target_input[:, 0] = BOS
    target_input[target_input == EOS] = PAD  # where a row is shorter, what follows its end is padding
    return Batch(
        source=source,
        source_mask=torch.arange(source.size(1)) < torch.tensor([[len(row)] for row in sources]),
        target_input=target_input,
        target_output=output,
        rows=rows,
        target_tokens=sum(map(len, targets)),
    )


class DenoisingStream(ResumableStream[Batch]):
    """Windows of a text, damaged anew every time; the damage is a function of the seed and the position alone."""

    name = WindowStream.name

    def __init__(self, windows: WindowStream, damage: Damage) -> None:
        """Damage what `windows` would give, with the same seed and identity."""
        super().__init__(windows.identity, seed=windows.seed, rank=windows.rank, world=windows.world)
        self._windows, self._damage = windows, damage

    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:  # noqa: D102
        for number, (plan, make) in enumerate(self._windows.epochs(first), start=first):
            yield plan, functools.partial(self._make, number, make)

    def _make(
        self,
        epoch: int,
        make: Callable[[int, NDArray[np.int64]], WindowBatch],
        index: int,
        starts: NDArray[np.int64],
    ) -> Batch:
        """Damage one batch of windows; its rows are where they begin in the text."""
        random, windows = self.random(epoch, index), make(index, starts)
        pairs = [self._damage(ids, random) for ids in windows.outputs.numpy()]
        return make_pairs(pairs, windows.starts.tolist())

"""Searching many sentences: batches by length, results in the order of the input, models in an ensemble."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.decoding.constraints import Symbols
from headwise.decoding.ids import check_ids, check_lists
from headwise.decoding.native.transformer import NativeTransformer
from headwise.decoding.options import SearchOptions
from headwise.decoding.search import Hypothesis, search
from headwise.errors import ConfigError
from headwise.models.base import Memory, Seq2Seq, State


def decode(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    symbols: Symbols,
    *,
    batch_tokens: int = 4096,
    prefixes: Sequence[Sequence[int]] | None = None,
    shortlist: Callable[[Sequence[int]], NDArray[np.int32]] | None = None,
) -> list[list[Hypothesis]]:
    """Search every source, ids that end with the end symbol; returns the results in the order of `sources`.

    `batch_tokens` bounds a batch's source tokens times the hypotheses of a sentence, padding included; a longer
    sentence makes a batch of its own. The batches change the speed and nothing else. `shortlist` gives for a source
    the only tokens that its outputs may hold, in ascending order, besides those of its prefix; probabilities are then
    taken among these.

    Raises `DataError` for ids that aren't in the vocabularies, or a list that isn't in order or has no end symbol.
    """
    device = model.device
    check_ids(sources, model.source_size, "source")
    check_ids(prefixes or [], model.target_size, "prefix", empty=True)
    lists = None if shortlist is None else [shortlist(source) for source in sources]
    if lists is not None:
        check_lists(lists, len(sources), model.target_size, symbols.eos)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    if isinstance(model, NativeTransformer) and prefixes is None and model.searches(options):
        for rows in similar([len(source) for source in sources]):
            room = batch_tokens // options.rows // len(sources[rows[0]])
            found = model.search(
                [sources[row] for row in rows],
                options,
                symbols,
                sentences=max(1, room),
                lists=None if lists is None else [lists[row] for row in rows],
            )
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
        return results
    for rows in batches([len(source) for source in sources], batch_tokens // options.rows):
        source, mask = padded([sources[row] for row in rows], symbols.pad, device)
        given = None if prefixes is None else [prefixes[row] for row in rows]
        listed = None
        if lists is not None:
            listed = torch.zeros(len(rows), model.target_size, dtype=torch.bool)
            for place, row in enumerate(rows):
                listed[place, torch.from_numpy(lists[row]).long()] = True
                listed[place, [] if given is None else list(given[place])] = True
            listed = listed.to(device)
        found = search(model, source, mask, options, symbols, prefixes=given, listed=listed)
        for row, hypotheses in zip(rows, found, strict=True):
            results[row] = hypotheses
    return results


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Group rows of similar length, longest first, so that rows times the longest stays within `tokens`."""
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        size = max(1, tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def similar(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Group rows, longest first, so that no row of a group is less than half as long as its longest."""
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        shortest = lengths[order[start]] / 2
        end = bisect.bisect_right(order, -shortest, lo=start, key=lambda row: -lengths[row])
        yield order[start:end]
        start = end


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids (batch, length), padded on the right, and a mask that is True on real tokens."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]


@dataclass(frozen=True)
class _Memories(Memory):
    """What each model of an ensemble made of the source."""

    parts: tuple[Memory, ...]


@dataclass(frozen=True)
class _States(State):
    """One decoding state for each model of an ensemble."""

    parts: tuple[State, ...]

    def reorder(self, rows: Tensor) -> _States:
        return _States(tuple(part.reorder(rows) for part in self.parts))

    def keep(self, sentences: Tensor) -> _States:
        return _States(tuple(part.keep(sentences) for part in self.parts))


class Ensemble(Seq2Seq):
    """Several models that vote at every token: the mean of their probabilities.

    It keeps the protocol of one model; its hidden states are its models' hidden states side by side.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        """Put models together; raises `ConfigError` unless their vocabularies have the same sizes."""
        super().__init__()
        self.models = nn.ModuleList(models)
        first = models[0]
        for number, model in enumerate(models[1:], start=2):
            sizes = (model.source_size, model.target_size)
            if sizes != (first.source_size, first.target_size):
                raise ConfigError(
                    f"ensemble: expected vocabularies of {first.source_size} source and {first.target_size} "
                    f"target subwords, as in model 1, found {sizes[0]} and {sizes[1]} in model {number}"
                )
        self.source_size, self.target_size = first.source_size, first.target_size
        self.max_length = min(model.max_length for model in models)
        self._members = tuple(models)
        self.eval()

    @property
    def device(self) -> torch.device:
        """The first model's."""
        return self._members[0].device

    @property
    def readable(self) -> Seq2Seq:
        """The ensemble of the models' readable forms."""
        if all(model.readable is model for model in self._members):
            return self
        return Ensemble([model.readable for model in self._members])

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
        parts = tuple(model.encode(source, mask) for model in self._members)
        return _Memories(torch.cat([part.states for part in parts], dim=-1), mask, parts)

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> State:  # noqa: D102
        assert isinstance(memory, _Memories)
        pairs = zip(self._members, memory.parts, strict=True)
        return _States(tuple(model.start(part, beams, capacity) for model, part in pairs))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:  # noqa: D102
        assert isinstance(state, _States)
        pairs = zip(self._members, state.parts, strict=True)
        log_probs, states = zip(*(model.step(tokens, part) for model, part in pairs), strict=True)
        return self._mean(log_probs), _States(states)

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        assert isinstance(memory, _Memories)
        pairs = zip(self._members, memory.parts, strict=True)
        return torch.cat([model.decode(part, target_input) for model, part in pairs], dim=-1)

    @property
    def output_weight(self) -> Tensor:
        """An ensemble's probabilities are a mean, and no one projection gives them."""
        raise NotImplementedError("an ensemble has no single output projection; use `project`")

    def project(self, hidden: Tensor) -> Tensor:
        """Return the mean's log-probabilities, which are logits too: their log-softmax is themselves."""
        widths = [model.output_weight.shape[1] for model in self._members]
        parts = zip(self._members, hidden.split(widths, dim=-1), strict=True)
        return self._mean([model.project(part).float().log_softmax(-1) for model, part in parts])

    @staticmethod
    def _mean(log_probs: Sequence[Tensor]) -> Tensor:
        return torch.logsumexp(torch.stack(list(log_probs)), dim=0) - math.log(len(log_probs))

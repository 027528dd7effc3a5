"""Interventions on attention weights and on the output, parsed from strings and applied per request.

An intervention is written `KIND:PART.LAYER.HEAD`, with layers and heads counted from 1 and `*` for all of them:

    silence:cross.2.3      head 3 of the second layer's cross-attention outputs 0 (Michel et al. 2019, equation 2)
    uniform:encoder.1.4    equal weights on all unmasked keys
    zero:cross.*.*@3       weights on key 3 (from 0) are 0, the others are unchanged; without @3, all weights are 0
    shuffle:decoder.1.1@7  the weights of unmasked keys are permuted, with seed 7
    shift:cross.2.*@-1     each weight moves to the previous unmasked key, cyclically
    prefix:Ein alter Mann  the output begins with these words
    word:3:Hund            the output's word 3 (from 0) is this one, after the model's own words 0 to 2

Parts are `encoder` and `decoder` (self-attention) and `cross`. `str` writes an `Intervention` as `parse` reads it.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import MultiHeadAttention, Probe, Probed

Part = Literal["encoder", "decoder", "cross"]
PARTS: tuple[Part, ...] = get_args(Part)

_PART_OF: dict[str, Part] = {part: part for part in PARTS}
_OF_HEADS = ("silence", "uniform", "zero", "shuffle", "shift")
_OF_OUTPUT = ("prefix", "word")
_HEAD = re.compile(r"(encoder|decoder|cross)\.([1-9][0-9]*|\*)\.([1-9][0-9]*|\*)(?:@(-?[0-9]+))?")
_MOST_DIGITS = 9  # of a number: positions, seeds and layers have fewer, and PyTorch's integers have 64 bits
_SHOWN = 60  # characters of an invalid intervention in its error message
_FORMS = {
    "silence": "silence:cross.2.3",
    "uniform": "uniform:cross.2.3",
    "zero": "zero:cross.2.3 or zero:cross.2.3@4",
    "shuffle": "shuffle:cross.2.3@7",
    "shift": "shift:cross.2.3@-1",
    "prefix": "prefix:Ein alter Mann",
    "word": "word:3:Hund",
}


@dataclass(frozen=True)
class Intervention:
    """One intervention; `parse` reads it from a string, and `str` writes that string.

    Attributes:
        kind: silence, uniform, zero, shuffle or shift (attention weights), prefix or word (the output).
        part: the part of the model: encoder, decoder or cross.
        layer: counted from 0; None for all.
        head: counted from 0; None for all.
        amount: key of zero (None: all keys), seed of shuffle, distance of shift, index of the word.
        text: the words of prefix, the word of word.
    """

    kind: str
    part: Part = "cross"
    layer: int | None = None
    head: int | None = None
    amount: int | None = None
    text: str = ""

    @property
    def of_heads(self) -> bool:
        """Whether it changes attention weights; otherwise it constrains the output."""
        return self.kind in _OF_HEADS

    def __str__(self) -> str:
        if self.kind == "prefix":
            return f"prefix:{self.text}"
        if self.kind == "word":
            return f"word:{self.amount}:{self.text}"
        layer, head = ("*" if number is None else number + 1 for number in (self.layer, self.head))
        amount = "" if self.amount is None else f"@{self.amount}"
        return f"{self.kind}:{self.part}.{layer}.{head}{amount}"

    @classmethod
    def parse(cls, text: str) -> Intervention:
        """Parse the form that `str` writes; raises `ConfigError` with an example of the kind's form."""
        kind, _, rest = text.strip().partition(":")
        subject = f"intervention {text[:_SHOWN] + '…' * (len(text) > _SHOWN)!r}"
        if kind not in _FORMS:
            raise ConfigError(f"{subject}: expected one of {', '.join(_FORMS)}, found {kind[:_SHOWN]!r}")
        if kind == "prefix" and rest.strip():
            return cls("prefix", text=rest.strip())
        if kind == "word":
            number, _, word = rest.partition(":")
            if number.isascii() and number.isdigit() and len(word.split()) == 1:
                return cls("word", amount=_parse_number(number, subject), text=word.strip())
        if kind in _OF_HEADS and (match := _HEAD.fullmatch(rest.strip())):
            part_name, layer, head, amount = match.groups()
            part = _PART_OF[part_name]
            if (amount is None) == (kind in ("silence", "uniform")) or kind == "zero":
                layers, heads = (
                    None if one == "*" else _parse_number(one, subject) - 1 for one in (layer, head)
                )
                return cls(
                    kind, part, layers, heads, None if amount is None else _parse_number(amount, subject)
                )
        raise ConfigError(f"{subject}: expected it written as in {_FORMS[kind]}")


def parse_interventions(texts: Iterable[str]) -> tuple[Intervention, ...]:
    """Parse interventions; blank strings are skipped."""
    return tuple(Intervention.parse(text) for text in texts if text.strip())


def attention_parts(model: Seq2Seq) -> dict[Part, list[Probed]]:
    """Return a model's attention modules by part, in the order of their layers; a missing part has an empty list."""
    attentions: dict[Part, list[Probed]] = {part: [] for part in PARTS}
    for name, module in model.named_modules():
        if isinstance(module, Probed):
            attentions[part_of(name)].append(module)
    return attentions


def part_of(name: str) -> Part:
    """Return the part that an attention module belongs to, by its name, such as `decoder.0.cross_attention`."""
    if name.endswith("cross_attention"):
        return "cross"
    return "encoder" if name.startswith("encoder") else "decoder"


def heads_of(attention: Probed) -> int:
    """Return the number of heads of an attention module; attention that isn't multi-head counts as one head."""
    return attention.heads if isinstance(attention, MultiHeadAttention) else 1


def private_copy(model: Seq2Seq) -> Seq2Seq:
    """Copy the modules but share the parameters, so that probes set on the copy don't affect other requests."""
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared)


@contextmanager
def intervening(model: Seq2Seq, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Context manager that applies interventions to attention weights, in the order given.

    The model must be a private copy (`private_copy`). Probes set earlier are called first and are restored on exit.
    Raises `ConfigError` for a head that the model doesn't have.
    """
    parts = attention_parts(model)
    saved_probes: list[tuple[Probed, Probe | None]] = []
    try:
        for intervention in interventions:
            if not intervention.of_heads:
                continue
            for index, attention in enumerate(_selected(parts, intervention)):
                saved_probes.append((attention, attention.probe))
                layer = index if intervention.layer is None else intervention.layer
                attention.probe = _probe(intervention, layer, attention.probe)
        yield
    finally:
        for attention, earlier in reversed(saved_probes):
            attention.probe = earlier


def _selected(parts: dict[Part, list[Probed]], intervention: Intervention) -> list[Probed]:
    attentions = parts[intervention.part]
    if not attentions:
        name = "cross-attention" if intervention.part == "cross" else f"{intervention.part} self-attention"
        raise ConfigError(
            f"intervention {str(intervention)!r}: expected a model with {name}, found none in it"
        )
    layers, heads = len(attentions), heads_of(attentions[0])
    for what, number, count in (("layer", intervention.layer, layers), ("head", intervention.head, heads)):
        if number is not None and number >= count:
            raise ConfigError(
                f"intervention {str(intervention)!r}: expected a {what} from 1 to {count}, found {number + 1}"
            )
    return attentions if intervention.layer is None else [attentions[intervention.layer]]


def _probe(intervention: Intervention, layer: int, earlier: Probe | None) -> Probe:
    change = _CHANGES[intervention.kind]
    head = intervention.head

    def probe(weights: Tensor) -> Tensor:
        weights = (weights if earlier is None else earlier(weights)).clone()
        for number in range(weights.size(1)) if head is None else [head]:
            weights[:, number] = change(weights[:, number], intervention.amount, (layer, number))
        return weights

    return probe


# A change maps one head's weights (batch, query, key) to new ones; it also gets the amount and (layer, head).


def _silence(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    return torch.zeros_like(weights)


def _uniform(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    unmasked = (weights > 0).to(weights.dtype)
    return unmasked / unmasked.sum(-1, keepdim=True).clamp(min=1)


def _zero(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    changed = torch.zeros_like(weights) if amount is None else weights.clone()
    if amount is not None and 0 <= amount < weights.size(-1):
        changed[..., amount] = 0.0
    return changed


def _shift(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    return _permute(weights, lambda count: torch.arange(count).roll(-(amount or 0)))


def _shuffle(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    layer, number = head

    def order(count: int) -> Tensor:
        generator = torch.Generator().manual_seed((amount or 0) * 1_000_003 + layer * 1009 + number)
        return torch.randperm(count, generator=generator)

    return _permute(weights, order)


def _permute(weights: Tensor, order: Callable[[int], Tensor]) -> Tensor:
    """Move the weight of each query's i-th unmasked key to its unmasked key number order(count)[i].

    A key is unmasked if its weight isn't 0; the order depends only on the number of unmasked keys, so that
    step-by-step decoding gives the same result as forced decoding.
    """
    moved = torch.zeros_like(weights)
    flat, target = weights.flatten(0, -2), moved.flatten(0, -2)
    for row, out in zip(flat, target, strict=True):
        unmasked = row.nonzero()[:, 0]
        out[unmasked[order(len(unmasked)).to(unmasked.device)]] = row[unmasked]
    return target.view_as(weights)


_CHANGES: dict[str, Callable[[Tensor, int | None, tuple[int, int]], Tensor]] = {
    "silence": _silence,
    "uniform": _uniform,
    "zero": _zero,
    "shuffle": _shuffle,
    "shift": _shift,
}


def _parse_number(text: str, subject: str) -> int:
    """Parse a number of an intervention; raises `ConfigError` if it has too many digits."""
    digits = len(text.lstrip("-"))
    if digits > _MOST_DIGITS:
        raise ConfigError(
            f"{subject}: expected numbers of at most {_MOST_DIGITS} digits, found one of {digits:,}"
        )
    return int(text)

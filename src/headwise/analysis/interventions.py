"""Changes to a model's attention and to what it must say, declared in a line and applied for one request.

An intervention is written `KIND:PART.LAYER.HEAD`, with layers and heads counted from 1 and `*` for all of them:

    silence:cross.2.3      head 3 of the second layer's cross-attention gives nothing (Michel et al. 2019, equation 2)
    uniform:encoder.1.4    it attends alike to all that it may see
    zero:cross.*.*@3       weights on key 3 (from 0) are 0, the others stay as they are; without @3, all weights
    shuffle:decoder.1.1@7  the positions that it may see change places, by the seed 7
    shift:cross.2.*@-1     what was meant for a position goes to the one before, around the end
    prefix:Ein alter Mann  the output begins with these words
    word:3:Hund            the output's word 3 (from 0) is this one, after those that the model says by itself

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
_SHOWN = 60  # characters of what can't be read
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
    """One change; `parse` makes it from a string, and `str` writes that string.

    Attributes:
        kind: silence, uniform, zero, shuffle or shift (a head's weights), prefix or word (the output).
        part: of the model: encoder, decoder or cross.
        layer: from 0; None for all.
        head: from 0; None for all.
        amount: key position of zero (None: all keys), seed of shuffle, distance of shift, number of the word.
        text: of prefix and word.
    """

    kind: str
    part: Part = "cross"
    layer: int | None = None
    head: int | None = None
    amount: int | None = None
    text: str = ""

    @property
    def of_heads(self) -> bool:
        """Whether it changes attention weights, and not what the output must say."""
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
        """Read what `str` writes; raises `ConfigError` that shows how the kind is written."""
        kind, _, rest = text.strip().partition(":")
        shown = f"intervention {text[:_SHOWN] + '…' * (len(text) > _SHOWN)!r}"
        if kind not in _FORMS:
            raise ConfigError(f"{shown}: expected one of {', '.join(_FORMS)}, found {kind[:_SHOWN]!r}")
        if kind == "prefix" and rest.strip():
            return cls("prefix", text=rest.strip())
        if kind == "word":
            number, _, word = rest.partition(":")
            if number.isascii() and number.isdigit() and len(word.split()) == 1:
                return cls("word", amount=_number(number, shown), text=word.strip())
        if kind in _OF_HEADS and (found := _HEAD.fullmatch(rest.strip())):
            named, layer, head, amount = found.groups()
            part = _PART_OF[named]
            if (amount is None) == (kind in ("silence", "uniform")) or kind == "zero":
                layers, heads = (None if one == "*" else _number(one, shown) - 1 for one in (layer, head))
                return cls(kind, part, layers, heads, None if amount is None else _number(amount, shown))
        raise ConfigError(f"{shown}: expected it written as in {_FORMS[kind]}")


def parse_interventions(texts: Iterable[str]) -> tuple[Intervention, ...]:
    """Read several; blank ones are left out."""
    return tuple(Intervention.parse(text) for text in texts if text.strip())


def attention_parts(model: Seq2Seq) -> dict[Part, list[Probed]]:
    """Return the attentions of a model by part and in the order of their layers; parts it lacks are empty."""
    found: dict[Part, list[Probed]] = {part: [] for part in PARTS}
    for name, module in model.named_modules():
        if isinstance(module, Probed):
            found[part_of(name)].append(module)
    return found


def part_of(name: str) -> Part:
    """Tell which part an attention belongs to by its dotted name, as in `decoder.0.cross_attention`."""
    if name.endswith("cross_attention"):
        return "cross"
    return "encoder" if name.startswith("encoder") else "decoder"


def heads_of(attention: Probed) -> int:
    """Count an attention's heads; an attention before heads is one."""
    return attention.heads if isinstance(attention, MultiHeadAttention) else 1


def private_copy(model: Seq2Seq) -> Seq2Seq:
    """Copy the modules and share the parameters: probes set on the copy touch nobody else's request."""
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared)


@contextmanager
def intervening(model: Seq2Seq, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Change the weights of heads inside this context, in the order given.

    The model must be the caller's alone (`private_copy`). Probes set before are called first and come back
    afterwards. Raises `ConfigError` for a head that the model doesn't have.
    """
    parts = attention_parts(model)
    changed: list[tuple[Probed, Probe | None]] = []
    try:
        for intervention in interventions:
            if not intervention.of_heads:
                continue
            for number, attention in enumerate(_chosen(parts, intervention)):
                changed.append((attention, attention.probe))
                layer = number if intervention.layer is None else intervention.layer
                attention.probe = _probe(intervention, layer, attention.probe)
        yield
    finally:
        for attention, earlier in reversed(changed):
            attention.probe = earlier


def _chosen(parts: dict[Part, list[Probed]], intervention: Intervention) -> list[Probed]:
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


# A change takes one head's weights (batch, query, key), the amount, and the head's (layer, head).


def _silence(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    return torch.zeros_like(weights)


def _uniform(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    seen = (weights > 0).to(weights.dtype)
    return seen / seen.sum(-1, keepdim=True).clamp(min=1)


def _zero(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    kept = torch.zeros_like(weights) if amount is None else weights.clone()
    if amount is not None and 0 <= amount < weights.size(-1):
        kept[..., amount] = 0.0
    return kept


def _shift(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    return _moved(weights, lambda count: torch.arange(count).roll(-(amount or 0)))


def _shuffle(weights: Tensor, amount: int | None, head: tuple[int, int]) -> Tensor:
    layer, number = head

    def order(count: int) -> Tensor:
        generator = torch.Generator().manual_seed((amount or 0) * 1_000_003 + layer * 1009 + number)
        return torch.randperm(count, generator=generator)

    return _moved(weights, order)


def _moved(weights: Tensor, order: Callable[[int], Tensor]) -> Tensor:
    """Move the weight of the i-th position that a query may see to position order(count)[i] among those.

    What a query may see is where its weight isn't 0; the order depends on their count alone, so that decoding step
    by step does the same as forced decoding.
    """
    moved = torch.zeros_like(weights)
    flat, target = weights.flatten(0, -2), moved.flatten(0, -2)
    for row, out in zip(flat, target, strict=True):
        seen = row.nonzero()[:, 0]
        out[seen[order(len(seen)).to(seen.device)]] = row[seen]
    return target.view_as(weights)


_CHANGES: dict[str, Callable[[Tensor, int | None, tuple[int, int]], Tensor]] = {
    "silence": _silence,
    "uniform": _uniform,
    "zero": _zero,
    "shuffle": _shuffle,
    "shift": _shift,
}


def _number(written: str, shown: str) -> int:
    """Read a number of an intervention; raises `ConfigError` for one of too many digits."""
    digits = len(written.lstrip("-"))
    if digits > _MOST_DIGITS:
        raise ConfigError(
            f"{shown}: expected numbers of at most {_MOST_DIGITS} digits, found one of {digits:,}"
        )
    return int(written)

"""Notation of interventions on a model and on its output.

One on heads is written `KIND:PART.LAYER.HEAD`, with layers and heads counted from 1 and `*` for all of them:

    silence:cross.2.3      head 3 of the second layer's cross-attention outputs 0 (Michel et al. 2019, equation 2)
    uniform:encoder.1.4    equal weights on all unmasked keys
    zero:cross.*.*@3       weights on key 3 (from 0) are 0, the others are unchanged; without @3, all weights are 0
    shuffle:decoder.1.1@7  the weights of unmasked keys are permuted, in order 7 (`weights.order`)
    shift:cross.2.*@-1     each weight moves to the previous unmasked key, cyclically
    only:cross.2.3         the other heads of the layer output 0
    no-scaling:*.*.*       weights softmax(QKᵀ), without the division by √d_k
    temperature:*.*.*@0.5  weights softmax(QKᵀ / √d_k / 0.5)

Others concern whole layers, a part, or the model (`sublayers.py`):

    no-residual:encoder.2  Sublayer(x) in place of x + Sublayer(x), in all sub-layers of the layer
    no-norm:*.*            LayerNorm(x) = x; without a layer's number, after the last layer of the part, too
    no-ffn:decoder.*       FFN(x) = 0
    no-mask:decoder.*      positions attend to later ones, in the decoder's self-attention
    no-positions:encoder   tokens without position encoding
    shuffle-positions:encoder@7  tokens with each other's positions, in order 7
    checkpoint:800         the model as it was after 800 steps of training; after 0, before training

And on the output:

    prefix:Ein alter Mann  the output begins with these words
    word:3:Hund            the output's word 3 (from 0) is this one, after the model's own words 0 to 2

Parts are `encoder` and `decoder` (self-attention), `cross`, and `*` for all. `str` writes an `Intervention` as `parse`
reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from headwise.errors import ConfigError

Part = Literal["encoder", "decoder", "cross"]
PARTS: tuple[Part, ...] = get_args(Part)
PART_NAMES: dict[Part, str] = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}

_PART_OF: dict[str, Part] = {part: part for part in PARTS}
_NUMBER = r"([1-9][0-9]*|\*)"
# The address of a kind, as (part, layer, head, amount); a group that it doesn't have is empty.
_HEAD = re.compile(rf"(encoder|decoder|cross|\*)\.{_NUMBER}\.{_NUMBER}(?:@(-?[0-9]+))?")
_TEMPERATURE = re.compile(rf"(encoder|decoder|cross|\*)\.{_NUMBER}\.{_NUMBER}@([0-9]{{1,4}}(?:\.[0-9]{{1,4}})?)")
_LAYER = re.compile(rf"(encoder|decoder|\*)\.{_NUMBER}()()")
_MASKED = re.compile(rf"(decoder)\.{_NUMBER}()()")
_STACK = re.compile(r"(encoder|decoder|\*)()()()")
_SHUFFLED = re.compile(r"(encoder)()()@([0-9]+)")
_STEP = re.compile(r"()()()([0-9]+)")
_ADDRESSES = {
    **dict.fromkeys(("silence", "uniform", "zero", "shuffle", "shift", "only", "no-scaling"), _HEAD),
    "temperature": _TEMPERATURE,
    **dict.fromkeys(("no-residual", "no-norm", "no-ffn"), _LAYER),
    "no-mask": _MASKED,
    "no-positions": _STACK,
    "shuffle-positions": _SHUFFLED,
    "checkpoint": _STEP,
}
_WITHOUT_AMOUNT = ("silence", "uniform", "only", "no-scaling")
LAYERS = ("no-residual", "no-norm", "no-ffn", "no-mask", "no-positions", "shuffle-positions")
_MOST_DIGITS = 9  # of a number: positions and layers have fewer, and PyTorch's integers have 64 bits
_SHOWN = 60  # characters of an invalid intervention in its error message
_FORMS = {
    "silence": "silence:cross.2.3",
    "uniform": "uniform:cross.2.3",
    "zero": "zero:cross.2.3 or zero:cross.2.3@4",
    "shuffle": "shuffle:cross.2.3@7",
    "shift": "shift:cross.2.3@-1",
    "only": "only:cross.2.3",
    "no-scaling": "no-scaling:cross.2.3",
    "temperature": "temperature:cross.2.3@0.5, above 0",
    "no-residual": "no-residual:encoder.2",
    "no-norm": "no-norm:encoder.2",
    "no-ffn": "no-ffn:encoder.2",
    "no-mask": "no-mask:decoder.2",
    "no-positions": "no-positions:encoder",
    "shuffle-positions": "shuffle-positions:encoder@7",
    "checkpoint": "checkpoint:800",
    "prefix": "prefix:Ein alter Mann",
    "word": "word:3:Hund",
}


@dataclass(frozen=True)
class Intervention:
    """One intervention; `parse` reads it from a string, and `str` writes that string.

    Attributes:
        kind: the word before the colon, one of those at the top of this file.
        part: the part of the model: encoder, decoder or cross; None for all.
        layer: counted from 0; None for all.
        head: counted from 0; None for all.
        amount: key of zero (None: all keys), number of the order of shuffle and shuffle-positions, distance of shift,
            index of the word, training steps of checkpoint.
        text: the words of prefix, the word of word.
        temperature: the number of that kind.
    """

    kind: str
    part: Part | None = "cross"
    layer: int | None = None
    head: int | None = None
    amount: int | None = None
    text: str = ""
    temperature: float | None = None

    @property
    def of_heads(self) -> bool:
        """Whether it changes attention weights; the others change layers, the model or the output."""
        return _ADDRESSES.get(self.kind) in (_HEAD, _TEMPERATURE)

    def __str__(self) -> str:
        if self.kind == "prefix":
            return f"prefix:{self.text}"
        if self.kind == "word":
            return f"word:{self.amount}:{self.text}"
        if self.kind == "checkpoint":
            return f"checkpoint:{self.amount}"
        layer, head = ("*" if number is None else str(number + 1) for number in (self.layer, self.head))
        whole = _ADDRESSES[self.kind] in (_STACK, _SHUFFLED)
        address = [self.part or "*", *([] if whole else [layer]), *([head] if self.of_heads else [])]
        amount = "" if self.amount is None else f"@{self.amount}"
        if self.temperature is not None:
            amount = f"@{self.temperature}".removesuffix(".0")
        return f"{self.kind}:{'.'.join(address)}{amount}"

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
        if kind in _ADDRESSES and (match := _ADDRESSES[kind].fullmatch(rest.strip())):
            part, *numbers, amount = match.groups()
            layer, head = (None if one in ("*", "") else _parse_number(one, subject) - 1 for one in numbers)
            of = _PART_OF.get(part)
            if kind == "temperature" and float(amount) > 0:
                return cls(kind, of, layer, head, temperature=float(amount))
            value = _parse_number(amount, subject) if amount and kind != "temperature" else None
            if kind != "temperature" and _complete(kind, head, value):
                return cls(kind, of, layer, head, value)
        raise ConfigError(f"{subject}: expected it written as in {_FORMS[kind]}")


def _complete(kind: str, head: int | None, amount: int | None) -> bool:
    """Return whether a parsed address of the kind's form has the head and the amount that the kind needs."""
    if _ADDRESSES[kind] is not _HEAD:
        return True
    if kind == "only" and head is None:
        return False
    if kind == "zero":
        return amount is None or amount >= 0
    return (amount is None) == (kind in _WITHOUT_AMOUNT)


def parse_interventions(texts: Iterable[str]) -> tuple[Intervention, ...]:
    """Parse interventions; blank strings are skipped."""
    return tuple(Intervention.parse(text) for text in texts if text.strip())


def _parse_number(text: str, subject: str) -> int:
    """Parse a number of an intervention; raises `ConfigError` if it has too many digits."""
    digits = len(text.lstrip("-"))
    if digits > _MOST_DIGITS:
        raise ConfigError(f"{subject}: expected numbers of at most {_MOST_DIGITS} digits, found one of {digits:,}")
    return int(text)

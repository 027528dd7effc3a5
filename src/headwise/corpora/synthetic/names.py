"""Invented names composed of syllables; the lists are the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

_BEGIN = (
    "Bar Bel Cor Dal Del Dun Far Fen Gar Gol Har Hol Kel Kor Lan Lin Mar Mel Nor Ost Pel Ram Ros Sel Tam "
    "Tes Ul Var Wen Zan"
)
_MIDDLE = "a e i o u an en er il in or"
_END = (
    "burn by croft dale dan don field ford gate ham heim ley low man mark mere mond more net rick rod sen "
    "shaw sin ster ton vik well wick"
)
_FIRST = "Ad Al Bri Cla Da E Fa Gre Hu I Jo Ka Le Mi No Ol Pa Ro Sa Ti U Vi Wil Ya"
_FIRST_END = "bel da dric fina gar lena lo mar mo na nia ra ric rin sa sel ta tor vin ya"
_HELD_OUT = 4  # one name in 4 is held out of training text


def split(words: str) -> tuple[str, ...]:
    """Return words that are written in one string."""
    return tuple(words.split())


@dataclass(frozen=True)
class Names:
    """Lists of names: `last` names families, towns or companies; `first` holds given names."""

    last: list[str]
    first: list[str]


@cache
def names(held_out: bool) -> Names:
    """Return all names with `held_out`, else those allowed in training text."""
    random = Random("names")
    last = [b + random.choice(["", *_MIDDLE.split()]) + e for b in _BEGIN.split() for e in _END.split()]
    first = [b + e for b in _FIRST.split() for e in _FIRST_END.split()]
    random.shuffle(last)
    random.shuffle(first)
    lists = (sorted(set(last[:480])), sorted(set(first[:160])))
    allowed = [[name for index, name in enumerate(name_list) if held_out or index % _HELD_OUT] for name_list in lists]
    return Names(*allowed)

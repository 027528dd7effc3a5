"""Options of the search and of text generation, validated on construction; the search's defaults are the paper's."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from headwise import bounds
from headwise.config import DecodingConfig
from headwise.config.loading import parse_setting
from headwise.errors import ConfigError, suggestion

_DEFAULTS = DecodingConfig()
_Check = tuple[Callable[[float], bool], str]
_RANGES = {
    "beam": (1, bounds.BEAM),
    "n_best": (1, bounds.SAMPLES),
    "min_length": (0, bounds.LENGTH),
    "max_length": (1, bounds.LENGTH),
    "max_tokens": (1, bounds.COUNT),
    "extra_length": (0, bounds.LENGTH),
    "no_repeat_ngram": (0, bounds.LENGTH),
    "top_k": (0, bounds.VOCABULARY),
    "seed": (0, bounds.SEED),
}
_HEAT = f"a number from {bounds.COLDEST:g} to {bounds.HOTTEST:,.0f}"
_REALS: dict[str, _Check] = {
    "alpha": (lambda x: 0 <= x <= bounds.ALPHA, f"a number from 0 to {bounds.ALPHA:g}"),
    "length_factor": (lambda x: 0 < x <= bounds.RATIO, f"a number above 0 and at most {bounds.RATIO:g}"),
    "patience": (
        lambda x: 1 <= x <= bounds.PATIENCE or x == math.inf,
        f"a number from 1 to {bounds.PATIENCE:,.0f}, or infinity (.inf)",
    ),
    "temperature": (lambda x: bounds.COLDEST <= x <= bounds.HOTTEST, _HEAT),
    "top_p": (lambda x: 0 < x <= 1, "a probability above 0 and up to 1"),
}


class _Options:
    """Values that are validated on construction: whole numbers, real numbers and switches."""

    reals: ClassVar[Mapping[str, _Check]] = _REALS
    of: ClassVar[str] = "search"  # what the options are of, in messages

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the options' names with their defaults."""
        return {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def check(cls, name: str, value: Any) -> None:
        """Raise `ConfigError` where a value is none of its option's, whatever the other options are."""
        default = getattr(cls, name)
        if value is None and default is None:
            return
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise ConfigError(f"{name}: expected true or false, found {value!r}")
        elif name in _RANGES:
            minimum, maximum = _RANGES[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
                raise ConfigError(f"{name}: expected a whole number of at least {minimum}, found {value!r}")
            if value > maximum:
                raise ConfigError(f"{name}: expected a whole number of at most {maximum:,}, found {value}")
        else:
            is_valid, expected = cls.reals[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not is_valid(value):
                raise ConfigError(f"{name}: expected {expected}, found {value!r}")

    @classmethod
    def known(cls, name: str, place: str = "") -> str:
        """Return the name of an option; raises `ConfigError` for an unknown one, with the nearest known."""
        names = list(cls.defaults())
        if name not in names:
            raise ConfigError(f"{place}{name}: unknown {cls.of} option {suggestion(name, names)}")
        return name

    @classmethod
    def parse(cls, settings: Iterable[str]) -> dict[str, Any]:
        """Return the values of settings `KEY=VALUE`, as `-s` takes them; values are parsed as YAML.

        Raises `ConfigError` that names the key for one that is unknown, or whose value is out of its range.
        """
        values: dict[str, Any] = {}
        for setting in settings:
            name, value = parse_setting(setting, "-s", "KEY=VALUE")
            cls.known(name, "-s ")
            if name in cls.reals and isinstance(value, str):
                with contextlib.suppress(ValueError):
                    value = float(value)  # 1e-6 is text in YAML, and a number in a configuration
            try:
                cls.check(name, value)
            except ConfigError as error:
                raise ConfigError(f"-s {error}") from None
            values[name] = float(value) if name in cls.reals else value
        return values

    def __post_init__(self) -> None:
        """Validate every value; raises `ConfigError` with the option, the expected range and the value."""
        for name in self.defaults():
            self.check(name, getattr(self, name))


@dataclass(frozen=True)
class SearchOptions(_Options):
    """Options of `headwise.decoding.search.search`; lengths are in subwords.

    Attributes:
        beam: beam size, the live hypotheses of a sentence (section 6.1 of the paper: 4); 1 is greedy search.
        alpha: exponent of the length penalty ((5 + |Y|) / 6)^alpha (section 6.1: 0.6); 0 disables it.
        n_best: hypotheses returned for each sentence; at most `beam`, except when sampling, where it is
            the number of independent samples, returned in the order drawn.
        min_length: minimum number of subwords before the end symbol.
        max_length: maximum number of subwords of an output, whatever the input's length.
        extra_length: an output has at most this many subwords more than its input (section 6.1: 50).
        length_factor: factor on the input's length, to which `extra_length` is added for the maximum output length.
        no_repeat_ngram: no n-gram of this size occurs twice in an output; 0 disables it.
        patience: a sentence's search doesn't end before `patience * beam` hypotheses are finished (Kasai et al.
            2022, "A call for clarity in beam search"), unless no live hypothesis can still win; infinity continues
            until then.
        allow_unknown: allow the unknown-word symbol in outputs.
        allow_empty: allow an output without a letter or a digit for a source that has one.
        sample: draw tokens at random instead of searching for the best.
        temperature: divisor of the log-probabilities before drawing.
        top_k: draw from the k likeliest tokens only; 0: from all.
        top_p: draw from the smallest set of likeliest tokens whose probabilities add up to this (nucleus sampling).
        guard: search again for an output that repeats itself, is far longer than its source, or lacks a number of it or
            what the run's dictionary has for a word of it
            (see `headwise.engine.guards.second_search`); not when sampling.
        recase: translate a line in capitals or in lower case, or a title, as ordinary text, and give the outcome the
            capitals back (see `headwise.engine.readings.recasing`).
        keep_translated: return a text that is surely in the target language as it is.
        seed: seed of the random draws; the same sentence with the same seed gives the same samples in any batch.
    """

    beam: int = _DEFAULTS.beam
    alpha: float = _DEFAULTS.alpha
    n_best: int = 1
    min_length: int = 0
    max_length: int | None = None
    extra_length: int = _DEFAULTS.extra_length
    length_factor: float = 1.0
    no_repeat_ngram: int = 0
    patience: float = 1.0
    allow_unknown: bool = False
    allow_empty: bool = False
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    guard: bool = False
    recase: bool = False
    keep_translated: bool = False

    def __post_init__(self) -> None:
        """Validate every value, and those that must go together."""
        super().__post_init__()
        if self.sample and self.guard:
            raise ConfigError("guard: expected it together with beam search, found sampling")
        if not self.sample:
            for name in ("temperature", "top_k", "top_p"):
                value = getattr(self, name)
                if value != getattr(type(self), name):
                    raise ConfigError(f"{name}: expected only together with sampling, found {value} in a beam search")
            self._check(self.n_best <= self.beam, "n_best", f"at most the beam size {self.beam}")
        if self.max_length is not None:
            self._check(self.min_length <= self.max_length, "min_length", f"at most max_length {self.max_length}")

    def _check(self, valid: bool, name: str, expected: str) -> None:
        if not valid:
            raise ConfigError(f"{name}: expected {expected}, found {getattr(self, name)}")

    def limit(self, source_length: int) -> int:
        """Return the maximum output length for a source of `source_length` subwords; both count the end symbol."""
        limit = math.ceil(source_length * self.length_factor) + self.extra_length
        if self.max_length is not None:
            limit = min(limit, self.max_length + 1)
        return max(limit, self.min_length + 1)

    def within(self, longest: int) -> SearchOptions:
        """Return the options with a maximum output length of at most `longest` subwords, without the end symbol.

        Raises `ConfigError` for a minimum length above it.
        """
        self._check(self.min_length <= longest, "min_length", f"at most the model's {longest}")
        if self.max_length is not None and self.max_length <= longest:
            return self
        return _replaced(self, max_length=longest)

    @property
    def rows(self) -> int:
        """Number of hypotheses of one sentence in a decoding batch."""
        return self.n_best if self.sample else self.beam


def changed_options(options: SearchOptions, changes: Mapping[str, Any]) -> SearchOptions:
    """Return options with some of them changed; raises `ConfigError` for an unknown one, with the nearest known."""
    if not changes:
        return options
    for name in changes:
        SearchOptions.known(name)
    if changes.get("sample") and "guard" not in changes:
        changes = {**changes, "guard": False}  # the run's option is for beam search
    try:
        return _replaced(options, **changes)
    except TypeError:  # a value without a hash, which is invalid
        return dataclasses.replace(options, **changes)


# A server makes the same options for each request, and checking all values takes a tenth of a short one's time.
@functools.lru_cache(maxsize=256, typed=True)
def _replaced(options: SearchOptions, **changes: Any) -> SearchOptions:
    return dataclasses.replace(options, **changes)


@dataclass(frozen=True)
class GenerationOptions(_Options):
    """Options of text generation with a language model; temperature 0 is greedy decoding.

    Attributes:
        temperature: divisor of the log-probabilities before drawing; 0 takes the likeliest token.
        top_k: draw from the k likeliest tokens only; 0: from all.
        top_p: draw from the smallest set of likeliest tokens whose probabilities add up to this.
        max_tokens: tokens added to the prompt, at most.
        seed: seed of the random draws.
    """

    of: ClassVar[str] = "generation"
    reals: ClassVar[Mapping[str, _Check]] = _REALS | {
        "temperature": (lambda x: x == 0 or bounds.COLDEST <= x <= bounds.HOTTEST, f"0, or {_HEAT}")
    }

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_tokens: int = 500
    seed: int = 1

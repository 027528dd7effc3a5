"""Detection of a text's language by py3langid, whose model is in its package."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from dataclasses import dataclass

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from headwise.characters import UNSPACED, has_letters

_READ = 2_000  # characters; more don't change the result
_LEAST = 0.01  # probability of a language that is reported besides the first
_SURE, _LEAST_WORDS = 0.99, 3  # probability among some languages, and words, by which one is told surely
_WORDS = re.compile(rf"{UNSPACED.pattern}|[^\W\d_]{{2,}}")


@dataclass(frozen=True)
class Detected:
    """A language and its probability, from 0 to 1."""

    language: str
    confidence: float


@functools.cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@functools.lru_cache(maxsize=64)
def _ranked(text: str) -> list[tuple[str, float]]:
    """Return all languages with their probabilities, the likeliest first, which aren't changed.

    A server asks three times about a text of one sentence: for the text's language, and whether it is surely another.
    """
    return _identifier().rank(text)


def detect(text: str, among: Collection[str] = ()) -> list[Detected]:
    """Return the probable languages of a text, best first; empty where it has no letters.

    Of several languages in `among` that the model knows, one is chosen: their probabilities add up to 1 then.
    """
    if not has_letters(text):
        return []
    candidates = set(among) & set(_identifier().labels)
    ranked = [(code, share) for code, share in _ranked(text[:_READ]) if code in candidates or not candidates]
    total = sum(share for _, share in ranked)
    found = [Detected(code, share / total) for code, share in ranked]
    return [one for number, one in enumerate(found) if number == 0 or one.confidence >= _LEAST]


def surely(text: str, among: Collection[str]) -> str:
    """Return the one of several languages that a text is surely in; empty where none is.

    That is the likeliest of all languages, with a probability of at least 0.99 among these, for a text of at least 3
    words of several letters. Of 8,000 sentences, English or German, none is taken for the other language so.
    """
    if len(_WORDS.findall(text)) < _LEAST_WORDS:
        return ""
    ranked = _ranked((text.lower() if text.isupper() else text)[:_READ])
    (first, share), total = ranked[0], sum(share for code, share in ranked if code in among)
    return first if first in among and share >= _SURE * total else ""


def is_known(code: str) -> bool:
    """Whether texts in a language can be recognized."""
    return code in _identifier().labels


def preload() -> None:
    """Read the model now, so that the first request doesn't wait for it."""
    _identifier()


def likeliest(text: str) -> str:
    """Return the code of the likeliest language; empty for a text without letters."""
    return _identifier().classify(text[:_READ])[0] if has_letters(text) else ""

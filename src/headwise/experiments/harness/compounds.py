"""Compounds at hyphens, as the paper counted its BLEU for German, and the form of Stanford's WMT 2014 text.

Stanford's text is tokenized as Moses does it, with quotes as entities, and has a hyphen inside a word as a token of its
own, `##AT##-##AT##`. The paper's BLEU was computed after such a split of both sides ("compound splitting"), which gives
points for half a compound.
"""

from __future__ import annotations

import re

from headwise.text.tokens.moses import detokenize, tokenize

_MARK = "##AT##-##AT##"
_INSIDE = re.compile(r"(\S)-(\S)")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
_SPLIT = re.compile(r" ?##AT##-##AT## ?")


def split_compounds(line: str) -> str:
    """Write every hyphen that stands inside a word as a token of its own; text already split stays as it is."""
    return _INSIDE.sub(rf"\1 {_MARK} \2", rejoin_compounds(line))


def rejoin_compounds(line: str) -> str:
    """Undo `split_compounds`."""
    return _SPLIT.sub("-", line)


def to_stanford(line: str, language: str) -> str:
    """Write plain text in Stanford's form; raises `ConfigError` for a language that Moses has no rules for here."""
    return _BETWEEN_LETTERS.sub(f" {_MARK} ", tokenize(line, language, escape=True))


def from_stanford(line: str, language: str) -> str:
    """Write text in Stanford's form plainly, as sacreBLEU wants it; raises as `to_stanford` does."""
    return detokenize(rejoin_compounds(line), language)

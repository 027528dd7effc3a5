"""Compound splitting at hyphens, as for the paper's German BLEU, and the format of Stanford's WMT 2014 text.

Stanford's text is tokenized like Moses, with quotes as entities, and a hyphen inside a word is a token of its own,
`##AT##-##AT##`. The paper's BLEU was computed after splitting hypotheses and references in this way ("compound
splitting"), which gives credit for half a compound.
"""

from __future__ import annotations

import re

from headwise.text.tokens.moses import detokenize, tokenize

_MARK = "##AT##-##AT##"
_INSIDE = re.compile(r"(\S)-(\S)")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
_SPLIT = re.compile(r" ?##AT##-##AT## ?")


def split_compounds(line: str) -> str:
    """Make every hyphen inside a word a token of its own; text that is already split is unchanged."""
    return _INSIDE.sub(rf"\1 {_MARK} \2", rejoin_compounds(line))


def rejoin_compounds(line: str) -> str:
    """Undo `split_compounds`."""
    return _SPLIT.sub("-", line)


def to_stanford(line: str, language: str) -> str:
    """Convert plain text to Stanford's format; raises `ConfigError` for a language without Moses rules."""
    return _BETWEEN_LETTERS.sub(f" {_MARK} ", tokenize(line, language, escape=True))


def from_stanford(line: str, language: str) -> str:
    """Convert Stanford's format to plain text, as sacreBLEU expects it; raises as `to_stanford` does."""
    return detokenize(rejoin_compounds(line), language)

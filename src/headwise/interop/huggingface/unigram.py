"""Unigram tokenizers in tokenizer.json, as SentencePiece models, which Headwise splits text with."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise import bounds
from headwise.errors import CheckpointError
from headwise.interop.huggingface.keys import MOST_BYTES
from headwise.parsing import read_json
from headwise.text.tokens.sentencepiece_file import (
    CONTROL,
    MODEL_TYPE,
    NORMAL,
    NORMALIZER,
    TRAINER,
    UNIGRAM,
    UNKNOWN,
    bytes_field,
    number_field,
    piece_field,
)
from headwise.text.tokens.tokenizer_json import parts_of

_KNOWN = {
    "normalizer": ("Precompiled", "Replace", "Sequence", "Strip"),
    "pre_tokenizer": ("Metaspace", "Sequence", "WhitespaceSplit"),
}
_SENTINEL = re.compile(r"<extra_id_\d{1,6}>", re.ASCII)


@dataclass(frozen=True)
class Unigram:
    """The pieces of a tokenizer with their log-probabilities, and the table of its normalization.

    `added` are the ids of tokens that are found in a text before it is split.
    """

    pieces: list[str]
    scores: list[float]
    unknown: int
    table: bytes
    added: dict[str, Any]

    def model(self) -> bytes:
        """Return a serialized SentencePiece model that splits text in the same way.

        Like T5's own spiece.model it lacks the sentinels, which are found in a text before it is split.
        """
        sentinel = [_SENTINEL.fullmatch(piece) is not None for piece in self.pieces]
        kept = [n for n in range(len(self.pieces)) if n == self.unknown or not sentinel[n]]
        content = b"".join(piece_field(self.pieces[n], self.scores[n], self._kind(n)) for n in kept)
        trainer = number_field(MODEL_TYPE, UNIGRAM) + number_field(40, kept.index(self.unknown))
        # The ids of begin, end and padding, which `PairVocabulary` has.
        trainer += b"".join(number_field(key, -1) for key in (41, 42, 43))
        normalizer = bytes_field(1, b"imported") + bytes_field(2, self.table)
        # A space before a text; no others twice; U+2581.
        normalizer += b"".join(number_field(key, 1) for key in (3, 4, 5))
        return content + bytes_field(TRAINER, trainer) + bytes_field(NORMALIZER, normalizer)

    def _kind(self, number: int) -> int:
        special = self.pieces[number] in ("<pad>", "<s>", "</s>")
        return UNKNOWN if number == self.unknown else CONTROL if special else NORMAL


def sentinels(pieces: Sequence[str]) -> tuple[str, ...]:
    """Return the pieces that stand for spans (Raffel et al. 2020)."""
    return tuple(piece for piece in pieces if _SENTINEL.fullmatch(piece))


def is_unigram(file: Path) -> bool:
    """Whether a tokenizer.json is of that kind; raises `CheckpointError` if it isn't JSON."""
    return _parts(file)[1].get("type") == "Unigram"


def read_unigram(file: Path) -> Unigram:
    """Read a tokenizer.json; raises `CheckpointError` if it isn't a Unigram tokenizer, or is damaged."""
    tree, model = _parts(file)
    found = model.get("type")
    if found != "Unigram" or model.get("byte_fallback"):
        raise CheckpointError(f"{file}: model: expected Unigram without byte_fallback, found {str(found)[:60]!r}")
    for name, known in _KNOWN.items():
        for part in parts_of(tree, name):
            if part.get("type") not in known:
                raise CheckpointError(
                    f"{file}: {name}: expected one of {', '.join(known)}, found {str(part.get('type'))[:60]!r}"
                )
    pieces, scores = _vocabulary(model.get("vocab"), file)
    unknown = model.get("unk_id")
    if isinstance(unknown, bool) or not isinstance(unknown, int) or not 0 <= unknown < len(pieces):
        raise CheckpointError(
            f"{file}: model.unk_id: expected an id from 0 to {len(pieces) - 1}, found {str(unknown)[:60]!r}"
        )
    return Unigram(pieces, scores, unknown, _table(tree, file), _added(tree.get("added_tokens"), file))


def _parts(file: Path) -> tuple[Any, dict[str, Any]]:
    """Return a tokenizer.json, and its part `model`, empty where it has none."""
    tree = read_json(file, error=CheckpointError, finite=False, most=MOST_BYTES)
    model = tree.get("model") if isinstance(tree, dict) else None
    return tree, model if isinstance(model, dict) else {}


def _vocabulary(vocabulary: Any, file: Path) -> tuple[list[str], list[float]]:
    pairs = vocabulary if isinstance(vocabulary, list) else []
    if not 0 < len(pairs) <= bounds.VOCABULARY or not all(_is_pair(pair) for pair in pairs):
        raise CheckpointError(f"{file}: model.vocab: expected pairs of a piece and a number, found other values")
    pieces = [piece for piece, _ in pairs]
    if len(set(pieces)) < len(pieces):
        raise CheckpointError(f"{file}: model.vocab: expected different pieces, found one twice")
    return pieces, [float(score) for _, score in pairs]


def _added(tokens: Any, file: Path) -> dict[str, Any]:
    listed = tokens if isinstance(tokens, list) else []
    if not all(isinstance(token, dict) and isinstance(token.get("content"), str) for token in listed):
        raise CheckpointError(f"{file}: added_tokens: expected objects with content, found other values")
    return {token["content"]: token.get("id") for token in listed}


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or not pair[0]:
        return False
    number = isinstance(pair[1], int | float) and not isinstance(pair[1], bool)
    return number and math.isfinite(pair[1]) and abs(pair[1]) < 1e30


def _table(tree: Mapping[str, Any], file: Path) -> bytes:
    """Return SentencePiece's table of the normalization; the library checks it before it follows it."""
    for part in parts_of(tree, "normalizer"):
        if part["type"] == "Precompiled":
            try:
                return base64.b64decode(part.get("precompiled_charsmap") or "", validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise CheckpointError(
                    f"{file}: normalizer: expected precompiled_charsmap in base 64, found other content"
                ) from None
    return b""

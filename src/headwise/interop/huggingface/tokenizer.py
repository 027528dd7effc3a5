"""The tokenizer of a single-text model: tokenizer.json, or the files of before it, renumbered for Headwise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError
from headwise.interop.huggingface.fields import MOST_BYTES
from headwise.interop.pieces import Rows
from headwise.parsing import read_bounded, read_json
from headwise.text.tokens.imported import MISSING, ImportedVocabulary, spell, spelling_of
from headwise.text.tokens.subwords import EOS
from headwise.text.tokens.tokenizer_json import (
    numbered_pieces,
    opening_piece,
    parse_tokenizer,
    renumbered,
)
from headwise.text.tokens.vocabulary import LINE_END, TOKENIZER_FILE

_LONGEST_LINE_END = len("<0x0A>")


@dataclass(frozen=True)
class Original:
    """A tokenizer of a directory: its parsed tree, the piece of each row of the embeddings, and its settings."""

    file: Path
    tree: dict[str, Any]
    pieces: list[str]
    settings: dict[str, Any]

    def named(self, key: str, default: str | None = None) -> str | None:
        """Return the piece of a role such as `mask_token`, if the vocabulary has it."""
        value = self.settings.get(key, default)
        value = value.get("content") if isinstance(value, dict) else value
        return value if isinstance(value, str) and value in self.pieces else None

    @property
    def unknown(self) -> str | None:
        """The piece of text that the vocabulary doesn't have."""
        piece = self.tree["model"].get("unk_token")
        return piece if isinstance(piece, str) and piece in self.pieces else None


def read_original(source: Path, size: int) -> Original:
    """Read the tokenizer of a model with `size` embeddings; raises `CheckpointError` for a missing or damaged file."""
    file = source / TOKENIZER_FILE
    if file.is_file():
        content = read_bounded(file, MOST_BYTES, CheckpointError, "a tokenizer of the library tokenizers")
    elif (source / "vocab.txt").is_file():
        file = source / "vocab.txt"
        content = _wordpiece(file, read_settings(source))
    elif (source / "merges.txt").is_file():
        file = source / "merges.txt"
        content = _byte_level(source)
    else:
        raise CheckpointError(
            f"{source}: expected {TOKENIZER_FILE}, vocab.txt, or vocab.json and merges.txt, found none of them"
        )
    tree = parse_tokenizer(content, str(file))
    return Original(file, tree, numbered_pieces(tree, size, str(file)), read_settings(source))


def take_over(
    original: Original, special: Sequence[str | None], mask: str | None = None
) -> tuple[ImportedVocabulary, Rows]:
    """Return the vocabulary with Headwise's ids, and the rows that they have in the original.

    `special` are the pieces of padding, unknown, begin and end, None for those that the model lacks; of equal ones only
    the last counts. Raises `CheckpointError` without a piece that ends texts.
    """
    pieces = original.pieces
    if special[EOS] is None:
        raise CheckpointError(f"{original.file}: expected a piece that ends texts, found none")
    found = [
        piece if piece is not None and piece not in special[i + 1 :] else None
        for i, piece in enumerate(special)
    ]
    ids = {piece: number for number, piece in enumerate(pieces)}
    if clash := next((piece for piece in MISSING if piece in ids and piece not in found), None):
        raise CheckpointError(f"{original.file}: expected no piece of the name {clash!r}, found one")
    first: list[int | None] = [None if piece is None else ids[piece] for piece in found]
    first += [] if mask is None else [ids[mask]]
    ordinary = len(first)
    spelling, line_end = spelling_of(original.tree, str(original.file)), None
    for number, piece in enumerate(pieces):
        if (
            len(piece) <= _LONGEST_LINE_END
            and number not in first
            and spell(piece, spelling) == LINE_END.encode()
        ):
            line_end = number
            break
    first += [] if line_end is None else [line_end]
    used = set(first)
    order = [*first, *(number for number in range(len(pieces)) if number not in used)]
    ordered = [MISSING[i] if row is None else pieces[row] for i, row in enumerate(order)]
    opening = opening_piece(original.tree)
    if opening is not None and opening not in ids:
        raise CheckpointError(
            f"{original.file}: post_processor: expected a piece before a text, found {opening[:40]!r}"
        )
    tree = renumbered(
        original.tree,
        ordered,
        [i for i in range(ordinary) if order[i] is not None],
        None if opening is None else ordered.index(opening),
    )
    content = (json.dumps(tree, ensure_ascii=False, indent=1) + "\n").encode()
    return ImportedVocabulary(content, origin=str(original.file)), Rows(tuple(order))


def read_settings(source: Path) -> dict[str, Any]:
    """Return the settings of tokenizer_config.json and special_tokens_map.json; raises `CheckpointError`."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = source / name
        if file.is_file():
            content = read_json(file, error=CheckpointError, finite=False, most=MOST_BYTES)
            if not isinstance(content, dict):
                raise CheckpointError(f"{file}: expected a JSON object, found a {type(content).__name__}")
            settings |= content
    return settings


def _wordpiece(file: Path, settings: dict[str, Any]) -> bytes:
    """Return the tokenizer.json of BERT's vocab.txt, which has a piece on each line."""
    content = read_bounded(file, MOST_BYTES, CheckpointError, "pieces, one on each line")
    try:
        pieces = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{file}: expected pieces in UTF-8, found other bytes") from None
    vocabulary = {piece.removesuffix("\r"): number for number, piece in enumerate(pieces)}
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": settings.get("tokenize_chinese_chars", True) is True,
        "strip_accents": settings["strip_accents"]
        if isinstance(settings.get("strip_accents"), bool)
        else None,
        "lowercase": settings.get("do_lower_case", True) is True,
    }
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary,
    }
    parts = {"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model}
    return json.dumps(parts | {"added_tokens": []}).encode()


def _byte_level(source: Path) -> bytes:
    """Return the tokenizer.json of GPT-2's vocab.json and merges.txt, which has a pair on each line."""
    file = source / "merges.txt"
    content = read_bounded(file, MOST_BYTES, CheckpointError, "pairs of pieces, one on each line")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{file}: expected pairs of pieces in UTF-8, found other bytes") from None
    merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    vocabulary = read_json(source / "vocab.json", error=CheckpointError, most=MOST_BYTES)
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "fuse_unk": False, "byte_fallback": False}
    return json.dumps({"added_tokens": [], "pre_tokenizer": step, "decoder": step, "model": model}).encode()

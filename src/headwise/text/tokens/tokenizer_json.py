"""The file `tokenizer.json` of the `tokenizers` library, checked and renumbered.

It is a tree: a normalizer, a pre-tokenizer, a model with its vocabulary, and tokens that are found before the text is
split. Only parts that are known to need little time and memory are accepted, because the file may be a stranger's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headwise import bounds
from headwise.errors import CheckpointError
from headwise.parsing import parse_object

MOST_BYTES = 64 << 20  # of a file; the largest in use have 33 MB
ADDED_OPTIONS = ("single_word", "lstrip", "rstrip", "normalized")  # of a token that is found before a text is split
MOST_UNUSED = 1 << 16  # rows of a matrix without a piece, which make its size a round number
_MODELS = ("BPE", "WordPiece", "WordLevel")
_PARTS = {
    "normalizer": "BertNormalizer NFC NFD NFKC NFKD Lowercase StripAccents Strip Replace Prepend Sequence",
    "pre_tokenizer": """BertPreTokenizer ByteLevel Digits Metaspace Punctuation Split Whitespace WhitespaceSplit
        Sequence""",
    "decoder": "ByteFallback ByteLevel Fuse Metaspace Replace Strip WordPiece Sequence",
}
_LISTS = ("normalizers", "pretokenizers", "decoders", "processors")  # of a Sequence
_LONGEST_PATTERN = 1000  # characters
_LONGEST_CONTENT = 4  # characters of an inserted text
_MOST_REPLACEMENTS = 4  # that may make a text longer
_MOST_ADDED = 1 << 20  # characters of all added tokens, for which the library builds an automaton
_LONGEST_ADDED = 256  # characters of one of them
_LONGEST_WORD = 1000  # characters; WordPiece needs time quadratic in them
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")  # may need time exponential in the length of a text


def parse_tokenizer(content: bytes, origin: str) -> dict[str, Any]:
    """Parse a file and check it; raises `CheckpointError` for a part that isn't known, and for a damaged file.

    The result has a model with `type`, and neither truncation nor padding nor random segmentation.
    """
    tree = parse_object(content, origin, error=CheckpointError, finite=False)
    model = tree.get("model")
    if not isinstance(model, dict) or not isinstance(tree.get("added_tokens", []), list):
        raise CheckpointError(f"{origin}: expected a model and a list of added_tokens, found other values")
    if "type" not in model:  # files of before 2020
        wordpiece = "max_input_chars_per_word" in model
        model["type"] = "BPE" if "merges" in model else "WordPiece" if wordpiece else "WordLevel"
    if model["type"] not in _MODELS:
        raise CheckpointError(
            f"{origin}: model: expected one of {', '.join(_MODELS)}, found {str(model['type'])[:60]!r}"
        )
    _check_vocabulary(model.get("vocab"), origin)
    _check_added(tree.get("added_tokens", []), model["vocab"], origin)
    for name, known in _PARTS.items():
        for part in parts_of(tree, name):
            _check_part(part, name, known.split(), origin)
    _check_growth(tree, origin)
    longest = model.get("max_input_chars_per_word", 100)
    if isinstance(longest, bool) or not isinstance(longest, int) or not 0 < longest <= _LONGEST_WORD:
        raise CheckpointError(
            f"{origin}: model.max_input_chars_per_word: expected a number from 1 to {_LONGEST_WORD}, "
            f"found {str(longest)[:40]}"
        )
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model["type"] == "BPE" and model.get(key):
            raise CheckpointError(f"{origin}: model.{key}: expected none, found {str(model[key])[:60]!r}")
    if model["type"] == "BPE":
        model["dropout"] = None
    return tree | {"truncation": None, "padding": None}


def parts_of(tree: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the parts under a key: the one that is there, or those of a Sequence, at any depth."""
    waiting = [tree.get(name)]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, dict):
            yield part
            for key in _LISTS:
                if isinstance(part.get(key), list):
                    waiting = [*part[key], *waiting]
        elif part is not None:
            yield {"type": str(part)[:60]}


def numbered_pieces(tree: Mapping[str, Any], size: int, origin: str) -> list[str]:
    """Return the piece of each id of a model with `size` embeddings; ids without a piece get a name of their own.

    Raises `CheckpointError` for an id without an embedding, if two pieces have the same id, and if there are far more
    embeddings than pieces.
    """
    ids = dict(tree["model"]["vocab"])
    for token in tree.get("added_tokens", []):
        ids.setdefault(token["content"], token["id"])
    if size > len(ids) + MOST_UNUSED:
        raise CheckpointError(
            f"{origin}: expected at most {MOST_UNUSED} fewer pieces than the {size} of config.json, found {len(ids)}"
        )
    pieces: list[str | None] = [None] * size
    for piece, number in ids.items():
        if number >= size or pieces[number] is not None:
            raise CheckpointError(
                f"{origin}: expected a different id from 0 to {size - 1} for each piece, "
                f"found {number} for {piece[:40]!r}"
            )
        pieces[number] = piece
    return [f"<unused {number}>" if piece is None else piece for number, piece in enumerate(pieces)]


def renumbered(
    tree: Mapping[str, Any], pieces: Sequence[str], special: Sequence[int], opening: int | None
) -> dict[str, Any]:
    """Return a tokenizer whose ids are the places of `pieces`.

    Args:
        tree: a parsed file.
        pieces: the pieces in the new order.
        special: new ids of symbols that aren't part of texts.
        opening: the new id of the symbol that the tokenizer puts before each text, if any.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    listed = {token["content"]: token for token in tree.get("added_tokens", []) if token["content"] in ids}
    for number in special:
        listed.setdefault(pieces[number], dict.fromkeys(ADDED_OPTIONS, False) | {"content": pieces[number]})
        listed[pieces[number]] = listed[pieces[number]] | {"special": True}
    added = [token | {"id": ids[content]} for content, token in listed.items()]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": tree.get("normalizer"),
        "pre_tokenizer": tree.get("pre_tokenizer"),
        "post_processor": None if opening is None else _template(pieces[opening], opening),
        "decoder": tree.get("decoder"),
        "model": tree["model"] | {"vocab": ids},
    }


def _template(piece: str, number: int) -> dict[str, Any]:
    """Return the post-processor that puts a symbol before a text."""
    symbol, text = {"SpecialToken": {"id": piece, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [symbol, text],
        "pair": [symbol, text, second],
        "special_tokens": {piece: {"id": piece, "ids": [number], "tokens": [piece]}},
    }


def opening_piece(tree: Mapping[str, Any]) -> str | None:
    """Return the symbol that the tokenizer puts before a single text, if any."""
    for part in parts_of(tree, "post_processor"):
        if part.get("type") in ("BertProcessing", "RobertaProcessing"):
            first = part.get("cls")
            if isinstance(first, list) and first and isinstance(first[0], str):
                return first[0]
        single = part.get("single")
        if part.get("type") == "TemplateProcessing" and isinstance(single, list) and single:
            symbol = single[0].get("SpecialToken") if isinstance(single[0], dict) else None
            if isinstance(symbol, dict) and isinstance(symbol.get("id"), str):
                return symbol["id"]
    return None


def _check_vocabulary(vocabulary: Any, origin: str) -> None:
    if not isinstance(vocabulary, dict) or not 0 < len(vocabulary) <= bounds.VOCABULARY:
        raise CheckpointError(
            f"{origin}: model.vocab: expected an id for each of at most {bounds.VOCABULARY} pieces, found none"
        )
    for piece, number in vocabulary.items():
        _check_id(piece, number, origin)
    if len(set(vocabulary.values())) < len(vocabulary):
        raise CheckpointError(f"{origin}: model.vocab: expected a different id for each piece, found one twice")


def _check_id(piece: Any, number: Any, origin: str) -> None:
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not isinstance(piece, str) or not piece or not whole or not 0 <= number < bounds.VOCABULARY:
        raise CheckpointError(
            f"{origin}: expected an id from 0 to {bounds.VOCABULARY - 1} for each piece, "
            f"found {str(number)[:40]} for {str(piece)[:40]!r}"
        )


def _check_added(tokens: Sequence[Any], vocabulary: Mapping[str, int], origin: str) -> None:
    characters = 0
    for token in tokens:
        if not isinstance(token, dict) or any(not isinstance(token.get(key, False), bool) for key in ADDED_OPTIONS):
            raise CheckpointError(f"{origin}: added_tokens: expected objects, found {str(token)[:60]!r}")
        _check_id(token.get("content"), token.get("id"), origin)
        characters += len(token["content"])
        if len(token["content"]) > _LONGEST_ADDED or characters > _MOST_ADDED:
            raise CheckpointError(
                f"{origin}: added_tokens: expected at most {_LONGEST_ADDED} characters each, {_MOST_ADDED} in all, "
                f"found more in {token['content'][:40]!r}"
            )
        if vocabulary.get(token["content"], token["id"]) != token["id"]:
            raise CheckpointError(
                f"{origin}: added_tokens: expected {token['content'][:40]!r} to have the id "
                f"{vocabulary[token['content']]} of the vocabulary, found {token['id']}"
            )


def _check_growth(tree: Mapping[str, Any], origin: str) -> None:
    """Raise `CheckpointError` for a normalizer by which a text may become much longer."""
    growing = 0
    for part in parts_of(tree, "normalizer"):
        if part["type"] == "Replace":
            pattern, content = part.get("pattern"), part.get("content")
            known = pattern.get("String") if isinstance(pattern, dict) else None
            growing += not isinstance(content, str) or len(content) > len(known if isinstance(known, str) else "")
        growing += part["type"] == "Prepend"
    if growing > _MOST_REPLACEMENTS:
        raise CheckpointError(
            f"{origin}: normalizer: expected at most {_MOST_REPLACEMENTS} parts that make a text longer, "
            f"found {growing}"
        )


def _check_part(part: Mapping[str, Any], name: str, known: Sequence[str], origin: str) -> None:
    if part.get("type") not in known:
        raise CheckpointError(
            f"{origin}: {name}: expected one of {', '.join(known)}, found {str(part.get('type'))[:60]!r}"
        )
    for key in ("content", "prepend"):
        if isinstance(part.get(key), str) and len(part[key]) > _LONGEST_CONTENT:
            raise CheckpointError(
                f"{origin}: {name}.{key}: expected at most {_LONGEST_CONTENT} characters, found {len(part[key])}"
            )
    pattern = part.get("pattern")
    regex = pattern.get("Regex") if isinstance(pattern, dict) else None
    if regex is not None and (
        not isinstance(regex, str) or len(regex) > _LONGEST_PATTERN or _REPEATED_GROUP.search(regex)
    ):
        raise CheckpointError(
            f"{origin}: {name}: expected a pattern of at most {_LONGEST_PATTERN} characters without repeated groups, "
            f"found {str(regex)[:60]!r}"
        )

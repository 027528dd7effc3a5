"""The tokenizer of a single-text model, in and out.

In: tokenizer.json, or the files of before it, renumbered for Headwise. Out: tokenizer.json of a run's vocabulary,
whichever its kind, for the libraries `tokenizers` and `transformers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

from headwise import bounds
from headwise.config import SubwordConfig
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError
from headwise.files import write_text
from headwise.interop.base import Array
from headwise.interop.huggingface.keys import MOST_BYTES, as_json, read_tree
from headwise.interop.pieces import Rows
from headwise.interop.table import Change
from headwise.parsing import read_bounded, read_object
from headwise.text.tokens.imported import MISSING, ImportedVocabulary, spell, spelling_of
from headwise.text.tokens.subwords import EOS, UNK
from headwise.text.tokens.tokenizer_json import (
    ADDED_OPTIONS,
    numbered_pieces,
    opening_piece,
    parse_tokenizer,
    parts_of,
    renumbered,
)
from headwise.text.tokens.vocabulary import LINE_END, TOKENIZER_FILE, Characters, Pieces, Vocabulary

ADDED = "added_tokens.json"  # beside the files of before tokenizer.json
_LONGEST_LINE_END = len("<0x0A>")
_SPACE = "\u2581"
_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
_ANY = r"[\s\S]"  # a character, line ends included
_GENERAL = ("PreTrainedTokenizerFast", "TokenizersBackend")  # classes that take tokenizer.json as it is
# Steps of a tokenizer with the keys of tokenizer_config.json that change them, and those of the step.
_STEPS = (
    (
        "normalizer",
        "BertNormalizer",
        {
            "do_lower_case": "lowercase",
            "strip_accents": "strip_accents",
            "tokenize_chinese_chars": "handle_chinese_chars",
        },
    ),
    ("pre_tokenizer", "ByteLevel", {"add_prefix_space": "add_prefix_space"}),
)


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
    file, settings = source / TOKENIZER_FILE, read_settings(source)
    if file.is_file():
        content = read_bounded(file, MOST_BYTES, CheckpointError, "a tokenizer of the library tokenizers")
    elif (source / "vocab.txt").is_file():
        file = source / "vocab.txt"
        content = _wordpiece(file, read_added(source))
    elif (source / "merges.txt").is_file():
        file = source / "merges.txt"
        content = _byte_level(source, read_added(source))
    else:
        raise CheckpointError(
            f"{source}: expected {TOKENIZER_FILE}, vocab.txt, or vocab.json and merges.txt, found none of them"
        )
    tree = parse_tokenizer(content, str(file))
    _follow(settings, tree)
    return Original(file, tree, numbered_pieces(tree, size, str(file)), settings)


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
    found = [piece if piece is not None and piece not in special[i + 1 :] else None for i, piece in enumerate(special)]
    ids = {piece: number for number, piece in enumerate(pieces)}
    if clash := next((piece for piece in MISSING if piece in ids and piece not in found), None):
        raise CheckpointError(f"{original.file}: expected no piece of the name {clash!r}, found one")
    first: list[int | None] = [None if piece is None else ids[piece] for piece in found]
    first += [] if mask is None else [ids[mask]]
    ordinary = len(first)
    spelling = spelling_of(original.tree, str(original.file))
    short = (n for n, piece in enumerate(pieces) if len(piece) <= _LONGEST_LINE_END and n not in first)
    line_end = next((n for n in short if spell(pieces[n], spelling) == LINE_END.encode()), None)
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


def subword_config(text: ImportedVocabulary) -> SubwordConfig:
    """Return the options of a vocabulary."""
    size = max(text.size, bounds.LEAST_VOCABULARY)
    return SubwordConfig(kind="imported", size=size, lowercase=text.lowercases)


def read_settings(source: Path) -> dict[str, Any]:
    """Return the settings of tokenizer_config.json and special_tokens_map.json; raises `CheckpointError`."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = source / name
        settings |= read_tree(file) if file.is_file() else {}
    return settings


def read_added(source: Path) -> dict[str, Any]:
    """Return the ids of the tokens that somebody added; raises `CheckpointError` for a damaged file."""
    return read_tree(source / ADDED) if (source / ADDED).is_file() else {}


def _follow(settings: Mapping[str, Any], tree: Mapping[str, Any]) -> None:
    """Change the steps of a tokenizer for which tokenizer_config.json has precedence in classes of one model."""
    if settings.get("tokenizer_class") in _GENERAL:
        return
    for name, kind, keys in _STEPS:
        for part in parts_of(tree, name):
            if part["type"] == kind:
                part.update({ours: settings[key] for key, ours in keys.items() if isinstance(settings.get(key), bool)})


def _wordpiece(file: Path, added: Mapping[str, Any]) -> bytes:
    """Return the tokenizer.json of BERT's vocab.txt, which has a piece on each line, and of added tokens."""
    vocabulary = {piece: n for n, piece in enumerate(_lines(file, "pieces"))}
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary,
    }
    parts = {"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model}
    return json.dumps(parts | {"added_tokens": _listed(added)}).encode()


def _byte_level(source: Path, added: Mapping[str, Any]) -> bytes:
    """Return the tokenizer.json of GPT-2's vocab.json and merges.txt, a pair on each line, and of added tokens."""
    lines = _lines(source / "merges.txt", "pairs of pieces")
    merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    vocabulary = read_object(source / "vocab.json", error=CheckpointError, most=MOST_BYTES)
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "fuse_unk": False, "byte_fallback": False}
    parts = {"pre_tokenizer": step, "decoder": step, "model": model}
    return json.dumps(parts | {"added_tokens": _listed(added)}).encode()


def _listed(added: Mapping[str, Any]) -> list[dict[str, Any]]:
    options = dict.fromkeys(ADDED_OPTIONS, False)
    return [options | {"content": content, "id": number, "special": False} for content, number in added.items()]


def _lines(file: Path, kind: str) -> list[str]:
    """Return the lines of a file, without LF or CRLF; raises `CheckpointError` with what they are if it is damaged."""
    content = read_bounded(file, MOST_BYTES, CheckpointError, f"{kind}, one on each line")
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{file}: expected {kind} in UTF-8, found other bytes") from None
    return [line.removesuffix("\r") for line in lines]


@dataclass(frozen=True)
class ExportedTokenizer:
    """A tokenizer to write.

    Attributes:
        tree: content of tokenizer.json, without the symbols that are put around texts.
        pieces: the pieces in the order of their ids.
        kept: for each of them the id in Headwise; ids that an imported model lacked are left out.
    """

    tree: Mapping[str, Any]
    pieces: list[str]
    kept: list[int]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> ExportedTokenizer:
        """Express a vocabulary."""
        if isinstance(vocabulary, ImportedVocabulary):
            tree = json.loads(vocabulary.content()[1])
            ids = tree["model"]["vocab"]
            names = sorted(ids, key=ids.__getitem__)
            missing = vocabulary.missing
        else:
            names = [*SPECIAL_PIECES, *vocabulary.symbols]
            names += [vocabulary.piece(number) for number in range(vocabulary.ordinary, vocabulary.size)]
            missing = ()
            tree = _characters(vocabulary) if isinstance(vocabulary, Characters) else _subwords(vocabulary)
        kept = [number for number in range(vocabulary.size) if number not in missing]
        pieces = [names[number] for number in kept]
        special = [index for index, number in enumerate(kept) if number < vocabulary.ordinary]
        return cls(renumbered(tree, pieces, special, None), pieces, kept)

    def number(self, ours: int) -> int | None:
        """Return the exported id of one of Headwise's, None if it is left out."""
        return self.kept.index(ours) if ours in self.kept else None

    def piece(self, ours: int) -> str | None:
        """Return the piece of one of Headwise's ids, None if it is left out."""
        number = self.number(ours)
        return None if number is None else self.pieces[number]

    def rows(self, tensor: Array) -> Array:
        """Return the rows of a matrix or vector that are exported."""
        return tensor[self.kept]

    def changes(self, _: str) -> Change:
        """Return the change of a tensor with a row for each piece, whichever its name."""
        return Change(outward=self.rows)

    def write(
        self,
        folder: Path,
        around: tuple[Sequence[int], Sequence[int]],
        names: Mapping[str, int],
        **settings: Any,
    ) -> None:
        """Write tokenizer.json and tokenizer_config.json.

        `around` are Headwise's ids of the symbols before and after a text; `names` are those of roles such as `pad`.
        """
        tree = {**self.tree, "post_processor": self._template(*around)}
        write_text(folder / TOKENIZER_FILE, as_json(tree))
        found = {f"{role}_token": self.piece(ours) for role, ours in names.items()}
        content = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **{key: piece for key, piece in found.items() if piece is not None},
            **settings,
        }
        write_text(folder / "tokenizer_config.json", as_json(content))

    def _template(self, before: Sequence[int], after: Sequence[int]) -> dict[str, Any] | None:
        """Return the post-processor; of a pair of texts, the second is of type 1 with the symbol after it."""
        if not before and not after:
            return None
        symbols = {self.pieces[number]: number for number in map(self._number, (*before, *after))}

        def parts(ours: Sequence[int], kind: int) -> list[dict[str, Any]]:
            return [{"SpecialToken": {"id": self.pieces[self._number(i)], "type_id": kind}} for i in ours]

        single = [*parts(before, 0), {"Sequence": {"id": "A", "type_id": 0}}, *parts(after, 0)]
        return {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}, *parts(after, 1)],
            "special_tokens": {
                piece: {"id": piece, "ids": [number], "tokens": [piece]} for piece, number in symbols.items()
            },
        }

    def _number(self, ours: int) -> int:
        number = self.number(ours)
        assert number is not None, ours
        return number


def sentence_steps(*, lowercase: bool) -> list[dict[str, Any]]:
    """Return the normalization of a sentence: no spaces around it or twice within it, one before it."""
    return [
        *([{"type": "Lowercase"}] if lowercase else []),
        {"type": "Replace", "pattern": {"Regex": "^ +| +$"}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "Prepend", "prepend": _SPACE},
        _SPACES,
    ]


def _characters(vocabulary: Characters) -> dict[str, Any]:
    """Return a tokenizer that splits a text into its characters."""
    split = {"type": "Split", "pattern": {"Regex": _ANY}, "behavior": "Isolated", "invert": False}
    return {
        "normalizer": {"type": "Lowercase"} if vocabulary.lowercase else None,
        "pre_tokenizer": split,
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "unk_token": SPECIAL_PIECES[UNK]},
    }


def _subwords(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the lossless byte-pair encoding of whole lines."""
    assert isinstance(vocabulary, Pieces)
    options = dict.fromkeys((*ADDED_OPTIONS, "special"), False)
    steps = [{"type": "Lowercase"}, _SPACES] if vocabulary.lowercases else [_SPACES]
    first = vocabulary.line_end + 1
    return byte_pairs(vocabulary.processor, first, steps) | {
        "added_tokens": [options | {"content": vocabulary.piece(vocabulary.line_end)}]
    }


def byte_pairs(
    processor: SentencePieceProcessor, first: int, normalizers: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return byte-pair encoding with the merges of a SentencePiece model, whose ordinary ids begin at `first`.

    SentencePiece joins the neighbours whose piece has the highest score; here each way to join two pieces to one is a
    merge, in the order of the scores.
    """
    ordinary = range(first, processor.vocab_size())
    joined = {processor.id_to_piece(i): processor.get_score(i) for i in ordinary if not processor.is_byte(i)}
    merges = [
        (-score, [piece[:end], piece[end:]])
        for piece, score in joined.items()
        for end in range(1, len(piece))
        if piece[:end] in joined and piece[end:] in joined
    ]
    merges.sort(key=lambda merge: merge[0])
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": list(normalizers)},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "unk_token": SPECIAL_PIECES[UNK],
            "fuse_unk": True,
            "byte_fallback": any(processor.is_byte(i) for i in ordinary),
            "merges": [pair for _, pair in merges],
        },
    }

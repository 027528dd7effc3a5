"""tokenizer.json of a run's vocabulary, whichever its kind, for the libraries `tokenizers` and `transformers`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from headwise.files import write_text
from headwise.text.tokens.imported import ImportedVocabulary
from headwise.text.tokens.numbering import SPECIAL_PIECES
from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.tokenizer_json import renumbered
from headwise.text.tokens.vocabulary import TOKENIZER_FILE, Characters, Pieces, Vocabulary

_SPACE = "\u2581"
_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
_ANY = r"[\s\S]"  # a character, line ends included


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

    def rows(self, tensor: Tensor) -> Tensor:
        """Return the rows of a matrix or vector that are exported."""
        return tensor[torch.tensor(self.kept)]

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


def as_json(content: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


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
    options = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
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

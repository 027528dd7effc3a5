"""From another toolkit's vocabulary to Headwise's ids: padding, unknown, begin and end come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError
from headwise.interop.base import Array
from headwise.interop.table import Change, Changes
from headwise.text.tokens.pair_vocabulary import PairVocabulary, Side
from headwise.text.tokens.splitting import Split, open_processor
from headwise.text.tokens.subwords import BOS, EOS, PAD, SPECIAL, UNK, Subwords

NEVER = -1e4  # logit of an id that the original doesn't have: e^-10000 is 0 in the softmax


@dataclass(frozen=True)
class Rows:
    """For each of Headwise's ids the row of the original's matrices; None for an id that it doesn't have.

    `copy` is an id whose row another id has, too, and which therefore never is an output.
    """

    order: tuple[int | None, ...]
    copy: int | None = None

    @property
    def needed(self) -> int:
        """The number of rows that the original's matrices have at least."""
        return max(row for row in self.order if row is not None) + 1

    @property
    def never(self) -> list[int]:
        """The ids that never are an output: those that the original doesn't have, and the copy."""
        return [n for n, row in enumerate(self.order) if row is None or n == self.copy]

    def of(self, tensor: Array, place: str) -> Array:
        """Return the rows of a matrix or the numbers of a vector, zeros for ids that the original doesn't have.

        Raises `CheckpointError` if there are too few.
        """
        count = self.needed
        if not tensor.ndim or len(tensor) < count:
            raise CheckpointError(f"{place}: expected at least {count} rows, found shape {tensor.shape}")
        found = tensor[[row or 0 for row in self.order]]
        found[[row is None for row in self.order]] = 0
        return found

    def into(self, source: Path) -> Changes:
        """Return the change of tensors of a file or directory, whose rows get Headwise's order."""
        return lambda name: Change(lambda tensor: self.of(tensor, f"{source}: {name}"))

    def logit_bias(self, stored: Array | None, place: str) -> Array:
        """Return the bias of the logits, so low for ids that can't be an output that they don't count."""
        bias = np.zeros(len(self.order), np.float32) if stored is None else self.of(stored.flatten(), place)
        bias[self.never] = NEVER
        return bias


def arranged(
    pieces: Sequence[str], special: tuple[int | None, ...], place: str, *, begin_is_piece: bool = False
) -> tuple[tuple[str, ...], Rows]:
    """Return the pieces in Headwise's order and the rows that they have in the original.

    `special` are the original's ids of padding, unknown, begin and end. A translation may begin with one of the others,
    or with a piece that texts have, too (`begin_is_piece`). Raises `CheckpointError` if two others are equal.
    """
    others = [special[name] for name in (PAD, UNK, EOS)]
    begin = special[BOS]
    shared = begin is not None and (begin_is_piece or begin in others)
    copy = None if not shared else PAD if begin == special[PAD] else BOS
    used = [number for number in others if number is not None]
    used += [] if shared or begin is None else [begin]
    if len(set(used)) != len(used) or max(used) >= len(pieces):
        raise CheckpointError(
            f"{place}: expected different ids below {len(pieces)} for padding, unknown, begin and end, "
            f"found {', '.join(map(str, used))}"
        )
    rest = [number for number in range(len(pieces)) if number not in used]
    names = [f"<unused {n}>" if not pieces[n] or pieces[n] in SPECIAL_PIECES else pieces[n] for n in rest]
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise CheckpointError(f"{place}: expected different pieces, found {twice[:60]!r} twice")
    return (*SPECIAL_PIECES, *names), Rows((*special, *rest), copy)


def make_subwords(
    models: tuple[bytes, bytes],
    lists: list[tuple[str, ...]],
    origin: str,
    split: Split = "sentencepiece",
    *,
    codes: bool = False,
    symbols: tuple[str, ...] = (),
    target_language: str = "",
) -> Subwords:
    """Return the subwords of one list of pieces or of two, without a vocabulary if the models number them alike.

    `target_language` is the piece with which every translation begins. The other options are those of `PairVocabulary`.
    """
    has_codes = any(piece.startswith(">>") and piece.endswith("<<") for piece in lists[0])
    if split == "sentencepiece" and not (has_codes or symbols or target_language):
        own = [_own_pieces(model, origin) for model in models]
        if len(lists) == 1 and models[0] == models[1] and own[0] == lists[0]:
            return Subwords(models[0], origin=origin)
        if len(lists) == 2 and own == lists:
            return Subwords(*models, origin=origin)
    target = lists[1] if len(lists) == 2 else None
    tagged: Side = "target" if target_language else "source"
    vocabulary = PairVocabulary(
        *(lists[0], target, codes or has_codes, split),
        symbols=symbols,
        language=target_language,
        tagged=tagged,
    )
    checked = PairVocabulary.parse(vocabulary.content(), origin)  # as when the run is opened
    return Subwords(*models, checked, origin=origin)


def source_code_notes(subwords: Subwords) -> list[str]:
    """Return a note where Headwise puts a language code before each source text, which other programs don't."""
    vocabulary = subwords.vocabulary
    if vocabulary is None or not vocabulary.language or vocabulary.tagged == "target":
        return []
    return [f"begin each text with {vocabulary.language}, which Headwise adds itself"]


def symbol_notes(subwords: Subwords) -> list[str]:
    """Return a note where Headwise finds pieces in a text before it is split, which other programs don't."""
    if subwords.vocabulary is None or not subwords.vocabulary.symbols:
        return []
    first, *others = subwords.vocabulary.symbols
    more = f" and {len(others)} more" if others else ""
    return [f"take {first}{more} out of a text before SentencePiece splits it: each is one piece"]


def _own_pieces(model: bytes, origin: str) -> tuple[str, ...]:
    """Return the pieces of a SentencePiece model with Headwise's special ids; none for another model."""
    processor = open_processor(model, origin)
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    return tuple(processor.id_to_piece(list(range(processor.vocab_size())))) if ids == SPECIAL else ()

"""Subwords of imported vocabularies: those of SentencePiece models, numbered by a list where their own ids differ."""

from __future__ import annotations

from headwise.text.tokens.numbering import Numbering, open_processor
from headwise.text.tokens.subwords import SPECIAL, Subwords


def numbered_subwords(
    models: tuple[bytes, bytes],
    lists: list[tuple[str, ...]],
    origin: str,
    *,
    codes: bool = False,
    symbols: tuple[str, ...] = (),
) -> Subwords:
    """Return the subwords of one list of pieces for both languages, or of two; their ids are places in the lists.

    There is no numbering if the models number their pieces alike. With `codes`, a piece such as `>>deu<<` may begin a
    text; `symbols` are pieces that no text has (see `Numbering`). Raises `CheckpointError` if a model is damaged.
    """
    own = [_own_pieces(model, origin) for model in models]
    has_codes = codes and any(piece.startswith(">>") and piece.endswith("<<") for piece in lists[0])
    if len(lists) == 1 and models[0] == models[1] and own[0] == lists[0] and not (has_codes or symbols):
        return Subwords(models[0], origin=origin)
    if len(lists) == 2 and own == lists and not has_codes:
        return Subwords(*models, origin=origin)
    numbering = Numbering(lists[0], lists[1] if len(lists) == 2 else None, codes=codes, symbols=symbols)
    return Subwords(*models, numbering, origin=origin)


def _own_pieces(model: bytes, origin: str) -> tuple[str, ...]:
    """Return the pieces of a SentencePiece model with Headwise's special ids; none for another model."""
    processor = open_processor(model, origin)
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    return tuple(processor.id_to_piece(list(range(processor.vocab_size())))) if ids == SPECIAL else ()

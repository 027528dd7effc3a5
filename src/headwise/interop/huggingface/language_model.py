"""What the importers of decoder-only models have in common: task language_model, and the tokenizer's symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from headwise.config import Config, ModelConfig
from headwise.config.base import Natural
from headwise.interop.base import Imported, make_config
from headwise.interop.huggingface.keys import Keys, VocabularySize, unexpected
from headwise.interop.huggingface.tokenizer import Original, read_original, subword_config, take_over
from headwise.interop.single import shapes_of
from headwise.interop.table import Changes, Left, Row
from headwise.models.build import build_decoder_only


class LanguageModelKeys(Keys):
    """Keys that all decoder-only models have."""

    architectures: list[str] = Field(default_factory=list)
    vocab_size: VocabularySize
    tie_word_embeddings: bool = True
    bos_token_id: int | None = None
    eos_token_id: Natural | list[Natural] | None = None
    pad_token_id: int | None = None  # older versions write -1 where there is none

    @property
    def ends(self) -> list[int]:
        """The ids that end a text."""
        ids = self.eos_token_id
        return ids if isinstance(ids, list) else [] if ids is None else [ids]


def language_model(
    source: Path,
    fields: LanguageModelKeys,
    model: ModelConfig,
    left: Left,
    table: Callable[[Changes], list[Row]],
) -> Imported:
    """Return a language model of the tensors in `left`; `table` needs what gives them Headwise's order of ids.

    Raises `CheckpointError` for what Headwise can't express.
    """
    original = read_original(source, fields.vocab_size)
    pad, begin = (
        None if number is None or number < 0 else _piece(original, [number], source, key)
        for key, number in (("pad_token_id", fields.pad_token_id), ("bos_token_id", fields.bos_token_id))
    )
    end = _piece(original, fields.ends, source, "eos_token_id")
    pad, begin = original.named("pad_token") or pad, original.named("bos_token") or begin
    text, rows = take_over(original, [pad, original.unknown, begin, end])
    found: dict[str, Any] = dict(left.take_rows(table(rows.into(source))))
    left.finish()
    bias = rows.logit_bias(None, str(source))
    model.logit_bias = bool(bias.any())
    found |= {"logit_bias": lambda: bias} if model.logit_bias else {}
    notes = [f"task language_model, from {fields.architectures[0]}"]
    if len(fields.ends) > 1:
        notes.append(f"a text ends with {end!r}, the first of {len(fields.ends)} symbols that end one there")
    config = make_config(
        source / "config.json",
        Config,
        task="language_model",
        model=model,
        subwords=subword_config(text),
        language_model={"lines_are_documents": True},
    )
    return Imported(config, shapes_of(lambda: build_decoder_only(model, text.size)), found, text, notes)


def _piece(original: Original, ids: Sequence[int], source: Path, key: str) -> str:
    if not ids or not 0 <= ids[0] < len(original.pieces):
        raise unexpected(source, key, f"an id from 0 to {len(original.pieces) - 1}", ids[0] if ids else None)
    return original.pieces[ids[0]]

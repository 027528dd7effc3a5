"""Marian directories as OPUS-MT publishes them, made by `transformers` itself: random weights, some training."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

from translator_run import ENGLISH, GERMAN

CODE = ">>deu<<"
SHAPE: dict[str, Any] = {
    "d_model": 24,
    **{"encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 40},
    **{"decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 40},
    **{"max_position_embeddings": 64, "scale_embedding": True, "init_std": 0.2},
    **{"eos_token_id": 0, "forced_eos_token_id": 0},
}
_MISSING = "▁dogs"  # a piece of source.spm that vocab.json lacks, as real ones do


def spm(texts: list[str], size: int) -> bytes:
    """Train a Unigram model with Marian's special ids, which aren't Headwise's."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5),
        model_writer=model,
        vocab_size=size,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        user_defined_symbols=[_MISSING],
    )
    return model.getvalue()


def write_tokenizer(folder: Path, *, separate: bool = False, target_codes: Sequence[str] = ()) -> tuple[int, int]:
    """Write source.spm, target.spm and vocab.json; return the sizes of both vocabularies.

    `target_codes` are further language codes, in the vocabulary of the target.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces = []
    for name, texts in (("source.spm", ENGLISH), ("target.spm", GERMAN)):
        (folder / name).write_bytes(spm(texts, 110))
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
        learned = map(processor.id_to_piece, range(2, processor.vocab_size()))
        pieces.append([piece for piece in learned if piece != _MISSING])
    lists = pieces if separate else [sorted({*pieces[0], *pieces[1]})]
    sizes = []
    for file, names in zip(("vocab.json", "target_vocab.json"), lists, strict=False):
        codes = ([] if separate else [CODE]) + ([*target_codes] if names is lists[-1] else [])
        ordered = ["</s>", "<unk>", *codes, *names, "<pad>"]
        (folder / file).write_text(json.dumps({piece: number for number, piece in enumerate(ordered)}))
        sizes.append(len(ordered))
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    settings |= {"source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return sizes[0], sizes[-1]


def write_marian(
    folder: Path, *, separate: bool = False, steps: int = 5, target_codes: Sequence[str] = (), **changes: Any
) -> Path:
    """Write a Marian model that `transformers` has made, trained for some steps and saved.

    The first of `target_codes`, if there are some, is forced to be the first token of a translation.
    """
    sizes = write_tokenizer(folder, separate=separate, target_codes=target_codes)
    pads = [size - 1 for size in sizes]
    settings = SHAPE | {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "activation_function": "swish",
        "share_encoder_decoder_embeddings": not separate,
        "pad_token_id": pads[0],
        "decoder_start_token_id": pads[0],
        **changes,
    }
    torch.manual_seed(0)
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings))
    model.generation_config.update(bad_words_ids=[[pads[0]]], num_beams=4, max_length=64)
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.3)
    tokenizer = load_tokenizer(folder)
    forced = code_id(tokenizer, target_codes[0]) if target_codes else None
    model.generation_config.forced_bos_token_id = forced
    train(model, tokenizer, steps, forced)
    model.save_pretrained(folder)
    return folder


def load_tokenizer(folder: Path) -> Any:
    """Load `MarianTokenizer`."""
    return transformers.MarianTokenizer.from_pretrained(folder)


def code_id(tokenizer: Any, code: str) -> int:
    """Return the target id of a language code."""
    number: int = (tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder)[code]
    return number


def train(model: Any, tokenizer: Any, steps: int, forced: int | None = None) -> None:
    """Train with the library's own loss, so that no parameter has its initial value.

    Translations begin with the token `forced`, if one is given.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batch = tokenizer(ENGLISH, text_target=GERMAN, return_tensors="pt", padding=True)
    if forced is not None:
        first = torch.full((len(batch["labels"]), 1), forced)
        batch["labels"] = torch.cat([first, batch["labels"]], dim=1)
    batch["labels"].masked_fill_(batch["labels"] == tokenizer.pad_token_id, -100)
    model.train()
    for _ in range(steps):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()

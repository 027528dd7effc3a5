"""Export to T5 of `transformers`, for translation runs of its shape.

As version 1.1 it doesn't divide the decoder's output. The weights of the queries are divided by √d_k, as T5 doesn't
divide its scores.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import Trained
from headwise.interop.huggingface.card import model_card
from headwise.interop.huggingface.exports.bert import needed
from headwise.interop.huggingface.exports.tokenizer import as_json, byte_pairs, sentence_steps
from headwise.interop.huggingface.imports.t5 import OUTPUT, SHARED, layer_names
from headwise.interop.huggingface.names import THEIR_ACTIVATIONS
from headwise.models.limits import inexpressible
from headwise.text.tokens.numbering import SPECIAL_PIECES
from headwise.text.tokens.splitting import open_processor
from headwise.text.tokens.subwords import BOS, EOS, PAD, SPECIAL, UNK, Subwords
from headwise.text.tokens.tokenizer_json import renumbered

_EXPRESSIBLE = (
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "norm_epsilon"),
    *("activation", "gated", "max_length", "logit_bias", "share_embeddings"),
)
_NEEDED = {
    "norm": "pre",
    "normalization": "rms",
    "feed_forward_bias": False,
    "positions": "t5",
    "scale_embeddings": False,
}


class Exporter(base.Exporter):
    """Writer of T5 directories."""

    library = "transformers"

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        model = config.model
        problems = inexpressible(model, (*_EXPRESSIBLE, *_NEEDED)) + needed(model, _NEEDED)
        if model.key_size != model.value_size:
            problems.append(f"model.d_v={model.value_size} beside model.d_k={model.key_size}")
        if model.gated and model.activation == "gelu":
            problems.append("model.activation=gelu beside model.gated=true")
        if model.share_embeddings == "target":
            problems.append("model.share_embeddings=target")
        if not config.subwords.joint:
            problems.append("subwords.joint=false")
        return f"T5 has no {', '.join(problems)}" if problems else None

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        rows = _rows(trained.subwords, trained.run)
        _check(trained, rows)
        symbols = {
            "pad_token_id": rows.index(PAD) if PAD in rows else rows.index(BOS),
            "eos_token_id": rows.index(EOS),
            "decoder_start_token_id": rows.index(BOS),
        }
        decoding = trained.config.decoding
        generation = {
            **symbols,
            "num_beams": decoding.beam,
            "length_penalty": decoding.alpha,
            "max_length": trained.config.model.max_length,
        }
        write_text(folder / "config.json", as_json(_configuration(trained, len(rows)) | symbols))
        write_text(folder / "generation_config.json", as_json(generation))
        write_bytes(folder / "model.safetensors", save(_tensors(trained, rows), {"format": "pt"}))
        _write_text(trained, folder)
        write_text(folder / "README.md", model_card(trained, "T5ForConditionalGeneration"))
        return ["T5ForConditionalGeneration: AutoModelForSeq2SeqLM and AutoTokenizer load it"]


def _rows(subwords: Subwords, run: Path) -> list[int]:
    """Return Headwise's id for each id of T5: those of spiece.model, then the symbols that it doesn't have.

    Raises `ConfigError` for a vocabulary that isn't spiece.model's.
    """
    if subwords.numbering is None:
        return list(range(subwords.source_size))
    pieces = subwords.numbering.source
    numbers = {piece: number for number, piece in enumerate(pieces)}
    processor = open_processor(subwords.models[0], str(run))
    own = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
    if "<s>" not in own:
        numbers["<pad>"] = BOS  # which began texts there
    if lacking := next((piece for piece in own if piece not in numbers), None):
        raise ConfigError(
            f"{run}: expected the pieces of its SentencePiece model, found none for {lacking!r}"
        )
    rows = [numbers[piece] for piece in own]
    return rows + sorted(set(range(len(SPECIAL), len(pieces))) - set(rows))


def _check(trained: Trained, rows: list[int]) -> None:
    """Raise `ConfigError` for weights that T5 has no place for."""
    model, run = trained.config.model, trained.run
    if model.logit_bias and bool(trained.tensor("logit_bias")[torch.tensor(rows)].any()):
        raise ConfigError(f"{run}: expected model.logit_bias=false, as T5 has none, found a bias")
    if model.share_embeddings == "none":
        source, target = (trained.tensor(f"{side}_embedding.weight") for side in ("source", "target"))
        if not torch.equal(source, target):
            raise ConfigError(
                f"{run}: expected equal embeddings of source and target, as in T5, found others"
            )


def _configuration(trained: Trained, size: int) -> dict[str, Any]:
    model = trained.config.model
    activation = THEIR_ACTIVATIONS[model.activation]
    if model.gated:
        activation = "gated-gelu" if model.activation == "gelu_tanh" else f"gated-{activation}"
    options = model.position_options.t5
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": size,
        "d_model": model.d_model,
        "d_kv": model.key_size,
        "d_ff": model.d_ff,
        "num_layers": model.encoder_layers,
        "num_decoder_layers": model.decoder_layers,
        "num_heads": model.heads,
        "n_positions": model.max_length,
        "relative_attention_num_buckets": options.buckets,
        "relative_attention_max_distance": options.reach,
        "dropout_rate": model.dropout,
        "layer_norm_epsilon": model.norm_epsilon,
        "feed_forward_proj": activation,
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # which also means that the output isn't divided by √d_model
        "dtype": "float32",
    }


def _tensors(trained: Trained, rows: list[int]) -> dict[str, Tensor]:
    """Return the parameters by their names in `transformers`."""
    model, order = trained.config.model, torch.tensor(rows)
    tensors = {}
    for ours, theirs in layer_names(model).items():
        tensor = trained.tensor(ours)
        tensors[theirs] = tensor / math.sqrt(model.key_size) if ours.endswith(".query.weight") else tensor
    shared = trained.tensor("source_embedding.weight")
    output = trained.tensor("output_projection.weight") if model.share_embeddings == "none" else shared
    tensors |= {SHARED: shared[order], OUTPUT: output[order]}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _write_text(trained: Trained, folder: Path) -> None:
    """Write spiece.model and, for a vocabulary of Headwise's own, its byte-pair encoding as tokenizer.json."""
    subwords = trained.subwords
    write_bytes(folder / "spiece.model", subwords.models[0])
    settings: dict[str, Any] = {
        "model_max_length": trained.config.model.max_length,
        "clean_up_tokenization_spaces": False,
        "pad_token": SPECIAL_PIECES[PAD],
        "unk_token": SPECIAL_PIECES[UNK],
        "eos_token": SPECIAL_PIECES[EOS],
    }
    if subwords.numbering is None:
        processor = subwords.source_processor
        assert isinstance(processor, SentencePieceProcessor)
        tree = byte_pairs(processor, len(SPECIAL), sentence_steps(lowercase=subwords.lowercases))
        decoders = tree["decoder"]["decoders"]
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        pieces = subwords.source_pieces(range(subwords.source_size))
        end = pieces[EOS]
        tree = renumbered(tree, pieces, SPECIAL, None) | {
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": end, "type_id": 0}},
                ],
                "pair": [
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"Sequence": {"id": "B", "type_id": 0}},
                    {"SpecialToken": {"id": end, "type_id": 0}},
                ],
                "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
            }
        }
        write_text(folder / "tokenizer.json", as_json(tree))
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    else:
        settings |= {"tokenizer_class": "T5Tokenizer", "extra_ids": len(subwords.numbering.symbols)}
    write_text(folder / "tokenizer_config.json", as_json(settings))

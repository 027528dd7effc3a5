"""Export to `transformers`: `MarianMTModel` or, for norm=pre, `PegasusForConditionalGeneration`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from headwise.config import Config
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import Trained
from headwise.interop.huggingface.card import model_card
from headwise.interop.huggingface.names import THEIR_ACTIVATIONS, layer_names
from headwise.interop.pieces import source_code_notes
from headwise.interop.residual import residual_dimension, sines_first
from headwise.models.limits import inexpressible
from headwise.nn.positions import sinusoids
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

_EXPRESSIBLE = (
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "norm", "activation", "max_length"),
    *("attention_bias", "logit_bias", "share_embeddings", "scale_embeddings"),
)


class Exporter(base.Exporter):
    """Writer of Marian and Pegasus directories."""

    library = "transformers"

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        problems = inexpressible(config.model, _EXPRESSIBLE)
        return f"it has no {', '.join(problems)}" if problems else None

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        config, generation = _configurations(trained)
        for name, content in (("config.json", config), ("generation_config.json", generation)):
            write_text(folder / name, _json(content))
        write_bytes(folder / "model.safetensors", save(_tensors(trained), {"format": "pt"}))
        _write_text(trained, folder)
        write_text(folder / "README.md", model_card(trained, config["architectures"][0]))
        notes = [
            f"{config['architectures'][0]} and MarianTokenizer: AutoModelForSeq2SeqLM and AutoTokenizer load them"
        ]
        return notes + source_code_notes(trained.subwords)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _configurations(trained: Trained) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the contents of config.json and generation_config.json."""
    model, decoding, subwords = trained.config.model, trained.config.decoding, trained.subwords
    marian = model.norm == "post"
    symbols = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": EOS,
    }
    config = {
        "architectures": ["MarianMTModel" if marian else "PegasusForConditionalGeneration"],
        "model_type": "marian" if marian else "pegasus",
        "vocab_size": subwords.source_size,
        "d_model": model.d_model,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.heads,
        "decoder_attention_heads": model.heads,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "max_position_embeddings": model.max_length,
        "activation_function": THEIR_ACTIVATIONS[model.activation],
        "scale_embedding": model.scale_embeddings,
        "tie_word_embeddings": model.share_embeddings != "none",
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "is_encoder_decoder": True,
        "num_hidden_layers": model.encoder_layers,
        "use_cache": True,
        "dtype": "float32",
        **symbols,
    }
    if marian:
        config["decoder_vocab_size"] = subwords.target_size
        config["share_encoder_decoder_embeddings"] = model.share_embeddings == "all"
    if subwords.given:
        symbols["forced_bos_token_id"] = subwords.given[0]
    generation = {
        **symbols,
        "bad_words_ids": [[PAD], [UNK], [BOS]],
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "max_length": model.max_length,
    }
    return config, generation


def _tensors(trained: Trained) -> dict[str, Tensor]:
    """Return the parameters by their names in `transformers`."""
    model = trained.config.model
    tensors = {}
    for ours, theirs in layer_names(model).items():
        dimension = residual_dimension(ours)
        tensor = trained.tensor(ours)
        tensors[theirs] = (
            tensor if dimension is None or dimension >= tensor.dim() else sines_first(tensor, dimension)
        )
    for name in set(layer_names(model.model_copy(update={"attention_bias": True})).values()) - tensors.keys():
        tensors[name] = torch.zeros(model.d_model)
    source = sines_first(trained.tensor("source_embedding.weight"), 1)
    if model.share_embeddings == "all":
        tensors["model.shared.weight"] = source
    else:
        target = sines_first(trained.tensor("target_embedding.weight"), 1)
        tensors |= {"model.encoder.embed_tokens.weight": source, "model.decoder.embed_tokens.weight": target}
    if model.share_embeddings == "none":
        tensors["lm_head.weight"] = sines_first(trained.tensor("output_projection.weight"), 1)
    bias = trained.tensor("logit_bias") if model.logit_bias else torch.zeros(trained.subwords.target_size)
    tensors["final_logits_bias"] = bias[None]
    table = sines_first(sinusoids(model.max_length, model.d_model), 1)
    tensors |= {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _write_text(trained: Trained, folder: Path) -> None:
    """Write the files of `MarianTokenizer`."""
    subwords = trained.subwords
    source = subwords.source_pieces(range(subwords.source_size))
    write_text(folder / "vocab.json", _json({piece: number for number, piece in enumerate(source)}))
    if not subwords.joint:
        target = subwords.target_pieces(range(subwords.target_size))
        write_text(
            folder / "target_vocab.json", _json({piece: number for number, piece in enumerate(target)})
        )
    for name, content in zip(("source.spm", "target.spm"), trained.sentencepiece(), strict=True):
        write_bytes(folder / name, content)
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": trained.config.model.max_length,
        "separate_vocabs": not subwords.joint,
        "source_lang": trained.languages[0] or "source",
        "target_lang": trained.languages[1] or "target",
        "clean_up_tokenization_spaces": False,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
    }
    write_text(folder / "tokenizer_config.json", _json(settings))

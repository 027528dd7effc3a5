"""Marian models of `transformers`, such as OPUS-MT's, in and out; and Pegasus for models with norm=pre.

Junczys-Dowmunt et al. 2018. Both have biases in the attention, all sines before all cosines, and a bias of the logits.
Marian normalizes after each sub-layer, as the paper does; Pegasus, the same model otherwise, before it. Pegasus has one
matrix of embeddings for both languages and the output.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headwise.config import Config, ModelConfig
from headwise.config.base import Heads, Layers, Length, Probability, Width
from headwise.engine.native.positions import sinusoids
from headwise.errors import CheckpointError
from headwise.interop.base import Array, Imported, Trained, assembled
from headwise.interop.huggingface.card import write_model
from headwise.interop.huggingface.keys import (
    SymbolKeys,
    VocabularySize,
    model_config,
    read_keys,
    search_keys,
    search_options,
    supported,
    their_keys,
)
from headwise.interop.huggingface.marian_text import languages, read_text, write_tokenizer
from headwise.interop.huggingface.tensors import folder_tensors
from headwise.interop.pieces import Rows, source_code_notes
from headwise.interop.residual import reordered, sines_first
from headwise.interop.table import VECTOR, Change, Left, Row, both, their_tensors
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

# Our names of a layer's parts, and theirs.
_ATTENTION = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_PARTS = {"around_feed_forward.norm": "final_layer_norm", "feed_forward.w1": "fc1", "feed_forward.w2": "fc2"}
_NORMS = {
    "encoder": {"around_attention.norm": "self_attn_layer_norm"},
    "decoder": {
        "around_self_attention.norm": "self_attn_layer_norm",
        "around_cross_attention.norm": "encoder_attn_layer_norm",
    },
}
_SHARED, _OUTPUT, _LOGIT_BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
_ENCODER, _DECODER = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
_ROUNDED = 2**-8  # more than sinusoids change that are rounded to bfloat16
# Their keys and ours.
_KEYS = {
    "d_model": "d_model",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_attention_heads": "heads",
    "decoder_attention_heads": "heads",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "d_ff",
    "max_position_embeddings": "max_length",
    "activation_function": "activation",
    "scale_embedding": "scale_embeddings",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
}


class Fields(SymbolKeys):
    """What config.json must have."""

    model_type: Literal["marian", "pegasus"]
    vocab_size: VocabularySize
    decoder_vocab_size: VocabularySize | None = None
    d_model: Width
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_attention_heads: Heads
    decoder_attention_heads: Heads
    encoder_ffn_dim: Width
    decoder_ffn_dim: Width
    max_position_embeddings: Length = 512
    activation_function: str = "gelu"
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0


def _table(model: ModelConfig, *, rows: Callable[[str, str], Change]) -> list[Row]:
    """Return our parameters and theirs, without positions and the bias of the logits.

    `rows` returns the change of embeddings, whose rows may have another order there, by our name and theirs.
    """
    table = [
        Row(f"{ours}.weight", theirs, rows(ours, theirs), copies=copies)
        for ours, (theirs, copies) in _embeddings(model).items()
    ]
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        names: dict[str, str] = {}
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
            for attention in ("self_attention",) if side == "encoder" else _ATTENTION:
                for projection, name in _PROJECTIONS.items():
                    own, path = f"{ours}.{attention}.{projection}", f"{theirs}.{_ATTENTION[attention]}.{name}"
                    table.append(_row(f"{own}.weight", f"{path}.weight"))
                    if model.attention_bias:
                        table.append(_row(f"{own}.bias", f"{path}.bias", model.d_model))
            names |= {f"{ours}.{own}": f"{theirs}.{name}" for own, name in (_NORMS[side] | _PARTS).items()}
        names |= {f"{side}_norm": f"model.{side}.layer_norm"} if model.norm == "pre" else {}
        table += [_row(row.names[0], str(row.theirs)) for row in both(names)]
    return table


def _row(ours: str, theirs: str, zeros: int = 0) -> Row:
    return Row(ours, theirs, reordered(ours), (zeros,) if zeros else ())


def _embeddings(model: ModelConfig) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return our embeddings and the output projection; for each the name there, and those of copies."""
    if model.share_embeddings == "all":
        return {"source_embedding": (_SHARED, (_ENCODER, _DECODER, _OUTPUT))}
    if model.share_embeddings == "target":
        return {"source_embedding": (_ENCODER, ()), "target_embedding": (_DECODER, (_OUTPUT,))}
    return {
        "source_embedding": (_ENCODER, ()),
        "target_embedding": (_DECODER, ()),
        "output_projection": (_OUTPUT, ()),
    }


def read(source: Path) -> Imported:
    """Read a Marian or Pegasus directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    tensors = folder_tensors(source)
    text, rows = read_text(source, fields, (fields.vocab_size, fields.decoder_vocab_size or fields.vocab_size))
    model = _model(fields, source, joint=text.joint)
    if model.share_embeddings != "all" and fields.share_encoder_decoder_embeddings and _SHARED in tensors:
        # Both sides have the same matrix, beside an output of its own (transformers 4) or with two vocabularies.
        tensors = {_ENCODER: tensors[_SHARED], _DECODER: tensors[_SHARED], **tensors}
    left = Left(source, tensors)
    _drop_positions(left, fields, source)
    stored = left.take(_LOGIT_BIAS)() if _LOGIT_BIAS in left else None
    biases = rows[-1].logit_bias(stored, f"{source}: {_LOGIT_BIAS}")
    model.logit_bias = bool(biases.any())
    if model.share_embeddings != "all":
        left.drop(_SHARED)

    def change(ours: str, theirs: str) -> Change:
        order: Rows = rows[0] if ours == "source_embedding" else rows[-1]
        return order.into(source)(theirs).then(reordered(f"{ours}.weight"))

    model.attention_bias = True
    names = [str(row.theirs) for row in _table(model, rows=change) if row.zeros]
    if not any(bool(left.peek(name)().any()) for name in names if name in left):
        model.attention_bias = False
        left.drop(*names)
    parameters: dict[str, Any] = dict(left.take_rows(_table(model, rows=change)))
    parameters |= {"logit_bias": lambda: biases} if model.logit_bias else {}
    left.finish()
    notes: list[str] = []
    decoding = search_options(fields, fields.max_position_embeddings, notes)
    return assembled(model, decoding, text, parameters, notes).in_languages(*languages(source))


def _model(fields: Fields, source: Path, *, joint: bool) -> ModelConfig:
    """Return the configuration for one vocabulary (`joint`) or two; raises `CheckpointError` for another model."""
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = getattr(fields, f"encoder_{name}"), getattr(fields, f"decoder_{name}")
        if encoder != decoder:
            raise CheckpointError(
                f"{source / 'config.json'}: expected encoder_{name} and decoder_{name} to be equal, "
                f"found {encoder} and {decoder}"
            )
    shared = "all" if fields.share_encoder_decoder_embeddings and joint else "target"
    return model_config(
        source,
        fields,
        _KEYS,
        norm="post" if fields.model_type == "marian" else "pre",
        share_embeddings=shared if fields.tie_word_embeddings else "none",
    )


def _drop_positions(left: Left, fields: Fields, source: Path) -> None:
    """Remove the position tables; raises `CheckpointError` if they aren't the paper's sinusoids."""
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name not in left:
            continue
        table = left.take(name)()
        expected = sines_first(sinusoids(fields.max_position_embeddings, fields.d_model), 1)
        if table.shape != expected.shape or not np.allclose(table, expected, rtol=0, atol=_ROUNDED):
            raise CheckpointError(f"{source}: expected {name} to be the paper's sinusoids, found other numbers")


SUPPORTED = supported(_KEYS, "norm", "attention_bias", "logit_bias", "share_embeddings")


def refuses(config: Config) -> str | None:
    """Return why a model is neither Marian's nor Pegasus', naming the keys; None where it is."""
    found, shared = SUPPORTED.problems(config.model), config.model.share_embeddings
    if config.model.norm == "pre" and shared != "all":
        found.append(f"model.share_embeddings={shared} beside model.norm=pre")
    return f"it has no {', '.join(found)}" if found else None


def write(trained: Trained, folder: Path) -> list[str]:
    """Write a Marian or Pegasus directory; return notes. Raises `ConfigError` for another tokenizer."""
    config, generation = _configurations(trained)
    write_model(trained, folder, config, _tensors(trained), generation)
    write_tokenizer(trained, folder)
    loaded = f"{config['architectures'][0]} and MarianTokenizer: AutoModelForSeq2SeqLM and AutoTokenizer load them"
    return [loaded, *source_code_notes(trained.subwords)]


def _configurations(trained: Trained) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the contents of config.json and generation_config.json."""
    model, subwords = trained.config.model, trained.subwords
    marian = model.norm == "post"
    symbols: dict[str, Any] = {
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
        **their_keys(model, _KEYS),
        "tie_word_embeddings": model.share_embeddings != "none",
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
    return config, symbols | {"bad_words_ids": [[PAD], [UNK], [BOS]]} | search_keys(trained.config)


def _tensors(trained: Trained) -> dict[str, Array]:
    """Return the parameters by their names in `transformers`."""
    model = trained.config.model
    biased = model.model_copy(update={"attention_bias": True})
    table = _table(biased, rows=lambda ours, _: reordered(f"{ours}.weight"))
    table.append(Row("logit_bias", _LOGIT_BIAS, VECTOR, (trained.subwords.target_size,)))
    tensors = their_tensors(table, trained.parameter)
    positions = sines_first(sinusoids(model.max_length, model.d_model), 1)
    return tensors | {f"model.{side}.embed_positions.weight": positions for side in ("encoder", "decoder")}

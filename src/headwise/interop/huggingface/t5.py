"""T5 of `transformers` (Raffel et al. 2020), versions 1.0 and 1.1, in and out, as task translation.

Its scores aren't divided by √d_k, so that the queries' weights are multiplied by √d_k here. Version 1.0 divides the
decoder's output by √d_model; here the gains of the decoder's final normalization are. What is written is of version
1.1, which doesn't.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sentencepiece import SentencePieceProcessor

from headwise import bounds
from headwise.config import Config, ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError, ConfigError
from headwise.files import write_bytes, write_text
from headwise.interop.base import Imported, Trained, assembled
from headwise.interop.huggingface.card import write_model
from headwise.interop.huggingface.keys import (
    THEIR_ACTIVATIONS,
    SymbolKeys,
    VocabularySize,
    as_json,
    check_architecture,
    find_activation,
    model_config,
    read_keys,
    search_keys,
    search_options,
    supported,
    their_keys,
    unexpected,
)
from headwise.interop.huggingface.marian_text import added_symbols, check_banned, numbered, placed, write_added
from headwise.interop.huggingface.tensors import folder_tensors
from headwise.interop.huggingface.tokenizer import byte_pairs, read_added, read_settings, sentence_steps
from headwise.interop.huggingface.unigram import is_unigram, read_unigram, sentinels
from headwise.interop.pieces import Rows, make_subwords
from headwise.interop.table import SAME, Change, Changes, Left, Row, their_tensors, times
from headwise.text.tokens.splitting import open_processor
from headwise.text.tokens.subwords import BOS, EOS, PAD, SPECIAL, UNK, Subwords, read_file
from headwise.text.tokens.tokenizer_json import MOST_UNUSED, renumbered

_ARCHITECTURES = ("T5ForConditionalGeneration", "T5WithLMHeadModel")
_SHARED, _OUTPUT = "shared.weight", "lm_head.weight"
# The sub-layers in their order there, by ours.
_SUBLAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
_MODULES = {
    "self_attention": "SelfAttention",
    "cross_attention": "EncDecAttention",
    "feed_forward": "DenseReluDense",
}
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_SENTINELS = 100  # of the published models
# Their keys and ours, and the keys of ours that have one value there.
_KEYS = {
    "d_model": "d_model",
    "d_ff": "d_ff",
    "num_layers": "encoder_layers",
    "num_heads": "heads",
    "n_positions": "max_length",
    "dropout_rate": "dropout",
    "layer_norm_epsilon": "norm_epsilon",
}
_ALWAYS = {
    "norm": "pre",
    "normalization": "rms",
    "feed_forward_bias": False,
    "positions": "t5",
    "scale_embeddings": False,
}


class Fields(SymbolKeys):
    """What config.json must have."""

    architectures: list[str] = Field(default_factory=list)
    vocab_size: VocabularySize
    d_model: Width
    d_kv: Width = 64
    d_ff: Width
    num_layers: Layers
    num_decoder_layers: Layers | None = None
    num_heads: Heads
    n_positions: Length = 512
    relative_attention_num_buckets: Annotated[int, Field(gt=0, le=bounds.LENGTH)] = 32
    relative_attention_max_distance: Length = 128
    dropout_rate: Probability = 0.1
    layer_norm_epsilon: Epsilon = 1e-6
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None  # since transformers 5

    @property
    def scales_output(self) -> bool:
        """Whether the decoder's output is divided by √d_model."""
        return self.tie_word_embeddings if self.scale_decoder_outputs is None else self.scale_decoder_outputs


def _table(model: ModelConfig, words: Changes, *, scales_output: bool, tied: bool) -> list[Row]:
    """Return our parameters and theirs; `words` reorders what has a row for each word.

    With `scales_output` their decoder's output is divided by √d_model; with `tied` they have the embeddings alone.
    """
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", *((_OUTPUT,) if tied else ()))
    rows = [Row("source_embedding.weight", _SHARED, words(_SHARED), copies=copies)]
    if not tied:
        ours = "source_embedding" if model.share_embeddings == "all" else "output_projection"
        rows.append(Row(f"{ours}.weight", _OUTPUT, words(_OUTPUT)))
    inner = {"w1": "wi_0", "gate": "wi_1", "w2": "wo"} if model.gated else {"w1": "wi", "w2": "wo"}
    query, gain = times(math.sqrt(model.key_size)), times(model.d_model**-0.5 if scales_output else 1.0)
    for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        norm = gain if stack == "decoder" else SAME
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rows += [
            Row(f"{stack}_norm.weight", f"{stack}.final_layer_norm.weight", norm),
            Row(f"{stack}.0.self_attention.positions.table", bias),
        ]
        for number in range(layers):
            for index, part in enumerate(_SUBLAYERS[stack]):
                ours, theirs = f"{stack}.{number}", f"{stack}.block.{number}.layer.{index}"
                around = "attention" if (stack, part) == ("encoder", "self_attention") else part
                rows.append(Row(f"{ours}.around_{around}.norm.weight", f"{theirs}.layer_norm.weight"))
                leaves = inner if part == "feed_forward" else _PROJECTIONS
                for leaf, name in leaves.items():
                    change = query if leaf == "query" else SAME
                    path = f"{theirs}.{_MODULES[part]}.{name}.weight"
                    rows.append(Row(f"{ours}.{part}.{leaf}.weight", path, change))
    return rows


def read(source: Path) -> Imported:
    """Read a T5 directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    name = check_architecture(source, fields.architectures, _ARCHITECTURES)
    left = Left(source, folder_tensors(source))
    tied = _OUTPUT not in left or left.equal(_OUTPUT, _SHARED)
    left.drop("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.")  # without effect
    model = _model(fields, source, tied)
    text, rows = _read_text(source, fields)
    table = _table(model, rows.into(source), scales_output=fields.scales_output, tied=tied)
    found: dict[str, Any] = dict(left.take_rows(table))
    left.finish()
    if not tied:
        found["target_embedding.weight"] = found["source_embedding.weight"]
    bias = rows.logit_bias(None, str(source))
    model.logit_bias = bool(bias.any())
    found |= {"logit_bias": lambda: bias} if model.logit_bias else {}
    notes = [f"task translation, from {name}; a task's prefix, such as `summarize: `, is part of the text"]
    decoding = search_options(fields, fields.n_positions, notes)
    return assembled(model, decoding, text, found, notes)


def _model(fields: Fields, source: Path, tied: bool) -> ModelConfig:
    gated = fields.feed_forward_proj.startswith("gated-")
    activation = fields.feed_forward_proj.removeprefix("gated-")
    activation = "gelu_new" if fields.feed_forward_proj == "gated-gelu" else activation
    buckets = {
        "buckets": fields.relative_attention_num_buckets,
        "reach": fields.relative_attention_max_distance,
    }
    return model_config(
        source,
        fields,
        _KEYS,
        **_ALWAYS,
        decoder_layers=fields.num_decoder_layers or fields.num_layers,
        d_k=fields.d_kv,
        d_v=fields.d_kv,
        activation=find_activation(source, "feed_forward_proj", activation),
        gated=gated,
        position_options={"t5": buckets},
        share_embeddings="all" if tied else "none",
        attention_dropout=fields.dropout_rate,
        activation_dropout=fields.dropout_rate,
    )


def _read_text(source: Path, fields: Fields) -> tuple[Subwords, Rows]:
    """Read spiece.model or tokenizer.json; raises `CheckpointError` where both are missing, or one is damaged."""
    file, model = source / "tokenizer.json", None
    if (source / "spiece.model").is_file():
        model = read_file(source / "spiece.model")
    if file.is_file() and (model is None or is_unigram(file)):
        unigram = read_unigram(file)
        pieces, model = list(unigram.pieces), unigram.model() if model is None else model
        added = unigram.added
    elif model is not None:
        file = source / "spiece.model"
        processor = open_processor(model, str(file))
        pieces = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
        count = read_settings(source).get("extra_ids", _SENTINELS)
        room = max(0, fields.vocab_size - len(pieces))
        count = min(count, room) if isinstance(count, int) and count >= 0 else room
        pieces += [f"<extra_id_{number}>" for number in reversed(range(count))]
        added = read_added(source)
    else:
        raise CheckpointError(f"{source}: expected spiece.model or tokenizer.json, found neither")
    if not fields.vocab_size - MOST_UNUSED <= len(pieces) <= fields.vocab_size:
        raise CheckpointError(
            f"{file}: expected at most vocab_size={fields.vocab_size} pieces, and at most {MOST_UNUSED} fewer, "
            f"found {len(pieces)}"
        )
    pieces = placed(added, [*pieces, *[""] * (fields.vocab_size - len(pieces))], file)
    ordered, rows = numbered(pieces, fields, file)
    check_banned(fields, rows, source)
    if fields.forced_bos_token_id is not None:
        raise unexpected(source, "forced_bos_token_id", "none", fields.forced_bos_token_id)
    symbols = added_symbols({*added, *sentinels(ordered)}, ordered)
    return make_subwords((model, model), [ordered], str(file), symbols=symbols), rows


SUPPORTED = supported(
    _KEYS,
    *("decoder_layers", "d_k", "d_v", "activation", "gated", "logit_bias", "share_embeddings"),
    always=_ALWAYS,
)


def refuses(config: Config) -> str | None:
    """Return why a model isn't T5's, naming the keys; None where it is."""
    model = config.model
    found = SUPPORTED.problems(model)
    if model.key_size != model.value_size:
        found.append(f"model.d_v={model.value_size} beside model.d_k={model.key_size}")
    if model.gated and model.activation == "gelu":
        found.append("model.activation=gelu beside model.gated=true")
    if model.share_embeddings == "target":
        found.append("model.share_embeddings=target")
    if not config.subwords.joint:
        found.append("subwords.joint=false")
    return f"T5 has no {', '.join(found)}" if found else None


def write(trained: Trained, folder: Path) -> list[str]:
    """Write a T5 directory; return notes. Raises `ConfigError` for weights and pieces that T5 has no place for."""
    trained.check_joiners()
    rows, model = _rows(trained.subwords, trained.run), trained.config.model
    _check(trained, rows)
    symbols = {
        "pad_token_id": rows.index(PAD) if PAD in rows else rows.index(BOS),
        "eos_token_id": rows.index(EOS),
        "decoder_start_token_id": rows.index(BOS),
    }
    order = Change(outward=lambda tensor: tensor[rows])
    table = _table(model, lambda _: order, scales_output=False, tied=False)
    config = _configuration(trained, len(rows)) | symbols
    generation = symbols | search_keys(trained.config)
    write_model(trained, folder, config, their_tensors(table, trained.parameter), generation)
    _write_text(trained, rows, folder)
    return ["T5ForConditionalGeneration: AutoModelForSeq2SeqLM and AutoTokenizer load it"]


def _rows(subwords: Subwords, run: Path) -> list[int]:
    """Return Headwise's id for each id of T5: those of spiece.model, then the symbols that it doesn't have.

    Raises `ConfigError` for a vocabulary that isn't spiece.model's.
    """
    if subwords.vocabulary is None:
        return list(range(subwords.source_size))
    pieces = subwords.vocabulary.source
    numbers = {piece: number for number, piece in enumerate(pieces)}
    processor = open_processor(subwords.models[0], str(run))
    own = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
    if "<s>" not in own:
        numbers["<pad>"] = BOS  # which began texts there
    if lacking := next((piece for piece in own if piece not in numbers), None):
        raise ConfigError(f"{run}: expected the pieces of its SentencePiece model, found none for {lacking!r}")
    rows = [numbers[piece] for piece in own]
    return rows + sorted(set(range(len(SPECIAL), len(pieces))) - set(rows))


def _check(trained: Trained, rows: list[int]) -> None:
    """Raise `ConfigError` for weights that T5 has no place for."""
    model, run = trained.config.model, trained.run
    if model.logit_bias and bool(trained.tensor("logit_bias")[rows].any()):
        raise ConfigError(f"{run}: expected model.logit_bias=false, as T5 has none, found a bias")
    if model.share_embeddings == "none":
        source, target = (trained.tensor(f"{side}_embedding.weight") for side in ("source", "target"))
        if not np.array_equal(source, target):
            raise ConfigError(f"{run}: expected equal embeddings of source and target, as in T5, found others")


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
        **their_keys(model, _KEYS),
        "d_kv": model.key_size,
        "num_decoder_layers": model.decoder_layers,
        "relative_attention_num_buckets": options.buckets,
        "relative_attention_max_distance": options.reach,
        "feed_forward_proj": activation,
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # which also means that the output isn't divided by √d_model
        "dtype": "float32",
    }


def _write_text(trained: Trained, rows: list[int], folder: Path) -> None:
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
    if subwords.vocabulary is None:
        processor = subwords.source_processor
        assert isinstance(processor, SentencePieceProcessor)
        tree = byte_pairs(processor, len(SPECIAL), sentence_steps(lowercase=subwords.lowercases))
        decoders = tree["decoder"]["decoders"]
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        pieces = subwords.lists()[0]
        end = pieces[EOS]
        first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
        last = {"SpecialToken": {"id": end, "type_id": 0}}
        template = {
            "type": "TemplateProcessing",
            "single": [first, last],
            "pair": [first, second, last],
            "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
        }
        tree = renumbered(tree, pieces, SPECIAL, None) | {"post_processor": template}
        write_text(folder / "tokenizer.json", as_json(tree))
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    else:
        symbols, pieces = subwords.vocabulary.symbols, subwords.vocabulary.source
        extra = sentinels(symbols)
        settings |= {"tokenizer_class": "T5Tokenizer", "extra_ids": len(extra)}
        write_added({piece: rows.index(pieces.index(piece)) for piece in symbols if piece not in extra}, folder)
    write_text(folder / "tokenizer_config.json", as_json(settings))

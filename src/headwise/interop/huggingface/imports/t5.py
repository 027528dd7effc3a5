"""T5 of `transformers` (Raffel et al. 2020), versions 1.0 and 1.1, as task translation.

Its scores aren't divided by √d_k, so that the queries' weights are multiplied by √d_k here. Version 1.0 divides the
decoder's output by √d_model; here the gains of the decoder's final normalization are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor

from headwise import bounds
from headwise.config import Config, ModelConfig, SubwordConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.errors import CheckpointError
from headwise.interop.base import Imported
from headwise.interop.huggingface.fields import (
    SymbolKeys,
    VocabularySize,
    find_activation,
    make_config,
    read_keys,
    search_options,
    unexpected,
)
from headwise.interop.huggingface.marian_text import numbered
from headwise.interop.huggingface.parameters import Parameters, changed
from headwise.interop.huggingface.tokenizer import read_settings
from headwise.interop.huggingface.unigram import is_unigram, read_unigram, sentinels
from headwise.interop.pieces import Rows, make_subwords
from headwise.models.build import build_model
from headwise.text.tokens.splitting import open_processor
from headwise.text.tokens.subwords import Subwords, read_file
from headwise.text.tokens.tokenizer_json import MOST_UNUSED

_ARCHITECTURES = ("T5ForConditionalGeneration", "T5WithLMHeadModel")
SHARED, OUTPUT = "shared.weight", "lm_head.weight"
# The numbers of the sub-layers and the names of their parts there, by ours.
_SUBLAYERS = {
    "encoder": {"self_attention": 0, "around_attention": 0, "feed_forward": 1, "around_feed_forward": 1},
    "decoder": {
        "self_attention": 0,
        "around_self_attention": 0,
        "cross_attention": 1,
        "around_cross_attention": 1,
        "feed_forward": 2,
        "around_feed_forward": 2,
    },
}
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_SENTINELS = 100  # of the published models


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


def read(source: Path) -> Imported:
    """Read a T5 directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    name = fields.architectures[0] if fields.architectures else ""
    if name not in _ARCHITECTURES:
        raise unexpected(source, "architectures", f"one of {', '.join(_ARCHITECTURES)}", name)
    left = Parameters(source)
    for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        left.drop_copy(copy, SHARED)
    tied = OUTPUT not in left or left.equal(OUTPUT, SHARED)
    if tied:
        left.drop((OUTPUT,))
    left.drop(("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.",))  # without effect
    model = _model(fields, source, tied)
    text, rows = _read_text(source, fields)
    model.logit_bias = bool(rows.never)
    found: dict[str, Any] = {}
    for ours, theirs in layer_names(model).items():
        found[ours] = changed(left.take(theirs), scaled, _scale(ours, model, fields))
    found |= _embeddings(left, model, rows, source)
    left.finish()
    notes = [f"task translation, from {name}; a task's prefix, such as `summarize: `, is part of the text"]
    config = make_config(
        source,
        Config,
        model=model,
        subwords=SubwordConfig(
            kind="bpe" if text.numbering is None else "imported",
            size=text.source_size,
            lowercase=text.lowercases,
        ),
        decoding=search_options(fields, fields.n_positions, notes),
    )
    return Imported(
        config, lambda: build_model(model, text.source_size, text.target_size), found, text, notes
    )


def _model(fields: Fields, source: Path, tied: bool) -> ModelConfig:
    gated = fields.feed_forward_proj.startswith("gated-")
    activation = fields.feed_forward_proj.removeprefix("gated-")
    activation = "gelu_new" if fields.feed_forward_proj == "gated-gelu" else activation
    return make_config(
        source,
        ModelConfig,
        encoder_layers=fields.num_layers,
        decoder_layers=fields.num_decoder_layers or fields.num_layers,
        d_model=fields.d_model,
        d_ff=fields.d_ff,
        heads=fields.num_heads,
        d_k=fields.d_kv,
        d_v=fields.d_kv,
        norm="pre",
        normalization="rms",
        norm_epsilon=fields.layer_norm_epsilon,
        feed_forward_bias=False,
        activation=find_activation(source, "feed_forward_proj", activation),
        gated=gated,
        positions="t5",
        position_options={
            "t5": {
                "buckets": fields.relative_attention_num_buckets,
                "reach": fields.relative_attention_max_distance,
            }
        },
        scale_embeddings=False,
        share_embeddings="all" if tied else "none",
        max_length=fields.n_positions,
        dropout=fields.dropout_rate,
        attention_dropout=fields.dropout_rate,
        activation_dropout=fields.dropout_rate,
    )


def layer_names(model: ModelConfig) -> dict[str, str]:
    """Return the name in `transformers` of each parameter but the embeddings, by its name in Headwise."""
    names: dict[str, str] = {}
    inner = {"w1": "wi_0", "gate": "wi_1", "w2": "wo"} if model.gated else {"w1": "wi", "w2": "wo"}
    for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        names[f"{stack}_norm.weight"] = f"{stack}.final_layer_norm.weight"
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names[f"{stack}.0.self_attention.positions.table"] = bias
        for number in range(layers):
            for part, index in _SUBLAYERS[stack].items():
                ours, theirs = f"{stack}.{number}.{part}", f"{stack}.block.{number}.layer.{index}"
                if part.startswith("around"):
                    names[f"{ours}.norm.weight"] = f"{theirs}.layer_norm.weight"
                    continue
                module = "EncDecAttention" if part == "cross_attention" else "SelfAttention"
                module, leaves = (
                    ("DenseReluDense", inner) if part == "feed_forward" else (module, _PROJECTIONS)
                )
                for leaf, name in leaves.items():
                    names[f"{ours}.{leaf}.weight"] = f"{theirs}.{module}.{name}.weight"
    return names


def _scale(ours: str, model: ModelConfig, fields: Fields) -> float:
    if ours.endswith(".query.weight"):
        return math.sqrt(model.key_size)
    return model.d_model**-0.5 if ours == "decoder_norm.weight" and fields.scales_output else 1.0


def scaled(tensor: Tensor, factor: float) -> Tensor:
    """Multiply a tensor by a factor."""
    return tensor if factor == 1.0 else tensor * factor


def _embeddings(
    left: Parameters, model: ModelConfig, rows: Rows, source: Path
) -> dict[str, Callable[[], Tensor]]:
    shared = changed(left.take(SHARED), rows.of, f"{source}: {SHARED}")
    found: dict[str, Callable[[], Tensor]] = {"source_embedding.weight": shared}
    if model.share_embeddings == "none":
        found["target_embedding.weight"] = shared
        found["output_projection.weight"] = changed(left.take(OUTPUT), rows.of, f"{source}: {OUTPUT}")
    bias = rows.logit_bias(None, str(source))
    return found if bias is None else found | {"logit_bias": lambda: bias}


def _read_text(source: Path, fields: Fields) -> tuple[Subwords, Rows]:
    """Read spiece.model or tokenizer.json; raises `CheckpointError` where both are missing, or one is damaged."""
    file, model = source / "tokenizer.json", None
    if (source / "spiece.model").is_file():
        model = read_file(source / "spiece.model")
    if file.is_file() and (model is None or is_unigram(file)):
        unigram = read_unigram(file)
        pieces, model = list(unigram.pieces), unigram.model() if model is None else model
    elif model is not None:
        file = source / "spiece.model"
        processor = open_processor(model, str(file))
        pieces = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
        count = read_settings(source).get("extra_ids", _SENTINELS)
        room = max(0, fields.vocab_size - len(pieces))
        count = min(count, room) if isinstance(count, int) and count >= 0 else room
        pieces += [f"<extra_id_{number}>" for number in reversed(range(count))]
    else:
        raise CheckpointError(f"{source}: expected spiece.model or tokenizer.json, found neither")
    if not fields.vocab_size - MOST_UNUSED <= len(pieces) <= fields.vocab_size:
        raise CheckpointError(
            f"{file}: expected at most vocab_size={fields.vocab_size} pieces, and at most {MOST_UNUSED} fewer, "
            f"found {len(pieces)}"
        )
    pieces += [f"<unused {number}>" for number in range(len(pieces), fields.vocab_size)]
    ordered, rows = numbered(pieces, fields, file)
    text = make_subwords((model, model), [ordered], str(file), symbols=sentinels(ordered))
    return text, rows

"""Marian models of `transformers`, such as OPUS-MT's, in and out; and Pegasus for models with norm=pre.

Junczys-Dowmunt et al. 2018. Both have biases in the attention, all sines before all cosines, and a bias of the logits.
Marian normalizes after each sub-layer, as the paper does; Pegasus, the same model otherwise, before it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.config import Config, ModelConfig, SubwordConfig
from headwise.errors import CheckpointError
from headwise.interop.base import Imported, Tensors
from headwise.interop.huggingface.fields import (
    Fields,
    find_activation,
    make_config,
    read_fields,
    search_options,
)
from headwise.interop.huggingface.marian_text import languages, read_text
from headwise.interop.huggingface.names import layer_names
from headwise.interop.pieces import Rows
from headwise.interop.residual import alternating, residual_dimension, sines_first
from headwise.interop.tensors import folder_tensors
from headwise.models.build import build_model
from headwise.nn.positions import sinusoids


def read(source: Path) -> Imported:
    """Read a Marian or Pegasus directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_fields(source)
    tensors = dict(folder_tensors(source))
    text, rows = read_text(source, fields)
    model = _model(fields, source)
    _drop_positions(tensors, fields, source)
    stored = tensors.pop("final_logits_bias", None)
    biases = rows[-1].logit_bias(stored and stored(), f"{source}: final_logits_bias")
    model.logit_bias = biases is not None
    model.attention_bias = _has_attention_bias(tensors, model)
    parameters: dict[str, Any] = {} if biases is None else {"logit_bias": lambda: biases}
    parameters |= _embeddings(tensors, model, rows, source)
    for ours, theirs in layer_names(model).items():
        if theirs not in tensors:
            raise CheckpointError(f"{source}: expected tensor {theirs}, found none of that name")
        parameters[ours] = partial(_alternating, tensors.pop(theirs), residual_dimension(ours))
    if tensors:
        raise CheckpointError(f"{source}: found tensor {min(tensors)}, which Headwise has no place for")
    notes: list[str] = []
    decoding = search_options(fields, fields.max_position_embeddings, notes)
    kind = "bpe" if text.numbering is None else "imported"
    subwords = SubwordConfig(kind=kind, size=text.source_size, joint=text.joint, lowercase=text.lowercases)
    imported = Imported(
        Config(model=model, subwords=subwords, decoding=decoding),
        lambda: build_model(model, text.source_size, text.target_size),
        parameters,
        text,
        notes,
    )
    return imported.in_languages(*languages(source))


def _model(fields: Fields, source: Path) -> ModelConfig:
    """Return the model configuration; raises `CheckpointError` for what Headwise can't express."""
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = getattr(fields, f"encoder_{name}"), getattr(fields, f"decoder_{name}")
        if encoder != decoder:
            raise CheckpointError(
                f"{source / 'config.json'}: expected encoder_{name} and decoder_{name} to be equal, "
                f"found {encoder} and {decoder}"
            )
    shared = "all" if fields.share_encoder_decoder_embeddings else "target"
    return make_config(
        source,
        ModelConfig,
        encoder_layers=fields.encoder_layers,
        decoder_layers=fields.decoder_layers,
        d_model=fields.d_model,
        d_ff=fields.encoder_ffn_dim,
        heads=fields.encoder_attention_heads,
        norm="post" if fields.model_type == "marian" else "pre",
        activation=find_activation(source, "activation_function", fields.activation_function),
        max_length=fields.max_position_embeddings,
        share_embeddings=shared if fields.tie_word_embeddings else "none",
        scale_embeddings=fields.scale_embedding,
        dropout=fields.dropout,
        attention_dropout=fields.attention_dropout,
        activation_dropout=fields.activation_dropout,
    )


def _drop_positions(tensors: dict[str, Any], fields: Fields, source: Path) -> None:
    """Remove the position tables; raises `CheckpointError` if they aren't the paper's sinusoids."""
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name not in tensors:
            continue
        table = tensors.pop(name)()
        expected = sines_first(sinusoids(fields.max_position_embeddings, fields.d_model), 1)
        if table.shape != expected.shape or not torch.allclose(table, expected, atol=1e-4):
            raise CheckpointError(
                f"{source}: expected {name} to be the paper's sinusoids, found other numbers"
            )


def _has_attention_bias(tensors: dict[str, Any], model: ModelConfig) -> bool:
    """Whether a bias of the attention isn't zero; if all are zero, remove them."""
    with_biases = model.model_copy(update={"attention_bias": True})
    names = set(layer_names(with_biases).values()) - set(layer_names(model).values())
    if any(bool(tensors[name]().any()) for name in names if name in tensors):
        return True
    for name in names:
        tensors.pop(name, None)
    return False


def _embeddings(tensors: dict[str, Any], model: ModelConfig, rows: list[Rows], source: Path) -> Tensors:
    """Return the embeddings and the output projection, with the rows in Headwise's order."""
    shared, output = "model.shared.weight", "lm_head.weight"
    encoder, decoder = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    places = {"source_embedding": (encoder, rows[0]), "target_embedding": (decoder, rows[-1])}
    if model.share_embeddings == "all":
        places = {"source_embedding": (shared, rows[0])}
        copies = {encoder: shared, decoder: shared, output: shared}
    else:
        tensors.pop(shared, None)
        copies = {output: decoder}
    if model.share_embeddings == "none":
        places["output_projection"] = (output, rows[-1])
        copies = {}
    for copy, original in copies.items():
        if copy in tensors and original not in tensors:
            tensors[original] = tensors.pop(copy)
        elif copy in tensors and not torch.equal(tensors.pop(copy)(), tensors[original]()):
            raise CheckpointError(f"{source}: expected {copy} to equal {original}, which it is tied to")
    found: dict[str, Any] = {}
    for ours, (theirs, order) in places.items():
        if theirs not in tensors:
            raise CheckpointError(f"{source}: expected tensor {theirs}, found none of that name")
        found[f"{ours}.weight"] = partial(_reordered, tensors.pop(theirs), order, f"{source}: {theirs}")
    return found


def _reordered(read: Any, rows: Rows, place: str) -> Tensor:
    tensor = rows.of(read(), place)
    return alternating(tensor, 1) if tensor.dim() == 2 else tensor


def _alternating(read: Any, dimension: int | None) -> Tensor:
    tensor = read()
    return tensor if dimension is None or dimension >= tensor.dim() else alternating(tensor, dimension)

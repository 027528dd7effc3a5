"""Export to Marian's own files, which Marian, bergamot and CTranslate2's converter read.

Marian's decoder begins with a zero vector, Headwise's with the embedding of `<s>`. That embedding, e, is subtracted
from all embeddings, and √d_model e is added where the first layer reads and writes the residual stream: in the biases
of its self-attention. With tied embeddings the logits of a position then differ by a constant, which the softmax
ignores.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from headwise.config import Config, ModelConfig
from headwise.config.support import Support
from headwise.engine.native.positions import sinusoids, tensor2tensor_sinusoids
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import Array, Trained
from headwise.interop.marian.npz import write_npz
from headwise.interop.marian.options import ACTIVATIONS
from headwise.interop.marian.table import NORM_EPSILON, OPTIONS, OUTPUT, POSITIONS, table
from headwise.interop.marian.vocabulary import vocabulary_text
from headwise.interop.pieces import source_code_notes, symbol_notes
from headwise.interop.residual import sines_first
from headwise.interop.table import VECTOR, Row, their_tensors
from headwise.text.tokens.subwords import BOS, Subwords

SUPPORTED = Support(
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "max_length", "share_embeddings"),
    *("attention_bias", "logit_bias", "norm_epsilon"),
    activation=ACTIVATIONS.values(),
    positions=("sinusoidal", "tensor2tensor"),
)
_VERSION = "v1.12.0"  # of Marian, whose options are written


class Exporter(base.Exporter):
    """Writer of a .npz file with its vocabularies and decoder.yml."""

    library = "Marian"

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        problems = SUPPORTED.problems(config.model)
        if problems == ["model.norm=pre"]:
            return "its decoder doesn't normalize earlier positions with model.norm=pre"
        return f"it has no {', '.join(problems)}" if problems else None

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        trained.check_untagged()
        model, subwords = trained.config.model, trained.subwords
        arrays: dict[str, NDArray[Any]] = dict(_tensors(trained))
        options = yaml.safe_dump(_options(model, subwords), default_flow_style=False).encode() + b"\0"
        arrays[OPTIONS] = np.frombuffer(options, np.int8)
        write_npz(folder / "model.npz", arrays)
        vocabularies = _write_vocabularies(subwords, folder)
        decoder = {
            "relative-paths": True,
            "models": ["model.npz"],
            "vocabs": vocabularies,
            "beam-size": trained.config.decoding.beam,
            "normalize": trained.config.decoding.alpha,
            "word-penalty": 0.0,
        }
        write_text(folder / "decoder.yml", yaml.safe_dump(decoder, sort_keys=False))
        return [
            "marian-decoder -c decoder.yml, and bergamot with the same options, read it",
            *_differences(model),
            *source_code_notes(subwords),
            *symbol_notes(subwords),
        ]


def _differences(model: ModelConfig) -> list[str]:
    """Return what Marian computes otherwise."""
    notes = []
    if model.positions == "sinusoidal":
        notes.append(
            "Marian's sinusoids have other frequencies than the paper's, so that it scores this model differently: "
            "train with model.positions=tensor2tensor for the same scores (CTranslate2 reads the table Wpos instead)"
        )
    if model.norm_epsilon != NORM_EPSILON:
        notes.append(
            f"Marian normalizes with an epsilon of {NORM_EPSILON:g}, not model.norm_epsilon={model.norm_epsilon:g}"
        )
    return notes


def _tensors(trained: Trained) -> dict[str, Array]:
    """Return the parameters by their names in Marian, in its layout."""
    model = trained.config.model
    biased = model.model_copy(update={"attention_bias": True})
    rows = table(biased, permuted=model.positions == "sinusoidal")
    rows.append(Row("logit_bias", f"{OUTPUT}_b", VECTOR, (trained.subwords.target_size,)))
    ours: dict[str, Array] = {}
    for row in rows:
        (name,) = row.names
        tensor = trained.parameter(name)
        ours[name] = np.zeros(row.zeros, np.float32) if tensor is None else tensor
    _start_from_zero(ours, model)
    tensors = their_tensors(rows, ours.get)
    if model.positions == "sinusoidal":
        tensors[POSITIONS] = sines_first(sinusoids(model.max_length, model.d_model), 1)
    else:
        tensors[POSITIONS] = tensor2tensor_sinusoids(model.max_length, model.d_model)
    return tensors


def _start_from_zero(tensors: dict[str, Array], model: ModelConfig) -> None:
    """Change the parameters so that the embedding of `<s>` is zero, if it isn't, and the model computes the same."""
    target = "source_embedding" if model.share_embeddings == "all" else "target_embedding"
    begin = tensors[f"{target}.weight"][BOS]
    if not bool(begin.any()):
        return
    tensors[f"{target}.weight"] = tensors[f"{target}.weight"] - begin
    moved = begin.astype(np.float64) * math.sqrt(model.d_model)
    for side in ("encoder", "decoder") if model.share_embeddings == "all" else ("decoder",):
        attention = f"{side}.0.self_attention"
        for projection in ("query", "key", "value"):
            weight, bias = (f"{attention}.{projection}.{part}" for part in ("weight", "bias"))
            tensors[bias] = (tensors[bias] + tensors[weight].astype(np.float64) @ moved).astype(np.float32)
        output = f"{attention}.output.bias"
        tensors[output] = (tensors[output] + moved).astype(np.float32)


def _options(model: ModelConfig, subwords: Subwords) -> dict[str, Any]:
    """Return the model's options: those that other readers than Marian need, too."""
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {
        "type": "transformer",
        "version": f"{_VERSION} headwise",
        "dim-emb": model.d_model,
        "dim-vocabs": [subwords.source_size, subwords.target_size],
        "enc-depth": model.encoder_layers,
        "dec-depth": model.decoder_layers,
        "input-types": [],
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "right-left": False,
        "skip": False,
        "tied-embeddings": model.share_embeddings == "target",
        "tied-embeddings-all": model.share_embeddings == "all",
        "tied-embeddings-src": False,
        "transformer-decoder-autoreg": "self-attention",
        "transformer-dim-ffn": model.d_ff,
        "transformer-ffn-activation": activations[model.activation],
        "transformer-ffn-depth": 2,
        "transformer-guided-alignment-layer": "last",
        "transformer-heads": model.heads,
        "transformer-no-projection": False,
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-preprocess": "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "ulr": False,
    }


def _write_vocabularies(subwords: Subwords, folder: Path) -> list[str]:
    """Write the vocabularies; return the names of those of source and target for the decoder.

    SentencePiece models whose ids are those of the embeddings are vocabularies by themselves: Marian then splits texts.
    """
    names = ["vocab.yml"] if subwords.joint else ["source.vocab.yml", "target.vocab.yml"]
    for name, pieces in zip(names, subwords.lists(), strict=False):
        write_text(folder / name, vocabulary_text(pieces))
    vocabulary = subwords.vocabulary
    if vocabulary is not None and vocabulary.split != "sentencepiece":
        return names * 2 if subwords.joint else names
    models = dict(zip(("source.spm", "target.spm"), subwords.models, strict=True))
    for name, model in models.items():
        write_bytes(folder / name, model)
    if vocabulary is None:
        return list(models)
    return names * 2 if subwords.joint else names

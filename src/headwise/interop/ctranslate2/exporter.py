"""Export to CTranslate2, by its own model specifications.

What is written is a directory for `ctranslate2.Translator`, with the SentencePiece models beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwise.config import Config, ModelConfig
from headwise.engine.native.positions import sinusoids
from headwise.extras import installed, not_installed
from headwise.files import write_bytes
from headwise.interop import base
from headwise.interop.base import Array, Trained
from headwise.interop.ctranslate2.layout import (
    ACTIVATIONS,
    POSITIONS,
    PROJECTION,
    SIDES,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    embeddings,
    linear_layers,
    norms,
    unsupported,
)
from headwise.interop.pieces import source_code_notes, symbol_notes

PRECISIONS = ("float32", "float16", "bfloat16", "int8")  # in which weights can be stored
SPM_FILES = ("source.spm", "target.spm")


class Exporter(base.Exporter):
    """Writer of CTranslate2 directories."""

    library = "CTranslate2"
    precisions = PRECISIONS

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        return unsupported(config.model)

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        write_model(trained, folder, precision, "--to ctranslate2")
        for name, content in zip(SPM_FILES, trained.sentencepiece(), strict=True):
            write_bytes(folder / name, content)
        subwords = trained.subwords
        prefix = subwords.target_pieces(subwords.given[:1])
        return [
            *source_code_notes(subwords),
            *symbol_notes(subwords),
            *(f"translate_batch needs target_prefix=[[{piece!r}], …], one for each text" for piece in prefix),
            f"{' and '.join(SPM_FILES)} split text into the tokens that ctranslate2.Translator takes and returns; "
            "it adds the end symbol of a source itself",
        ]


def write_model(trained: Trained, folder: Path, precision: str, place: str) -> None:
    """Write CTranslate2's own files, whose tokens are the subwords, into an existing directory.

    Raises `ConfigError` from `place` where CTranslate2 isn't installed.
    """
    if not installed("ctranslate2"):  # importing it takes longer
        raise not_installed(place, "ctranslate2")
    subwords = trained.subwords
    vocabularies = subwords.lists()
    model = trained.config.model
    convert(
        model,
        trained.weights.get,
        vocabularies,
        folder,
        precision=precision,
        source_end=model.source_end,
    )


def convert(
    config: ModelConfig,
    tensors: Callable[[str], Array | None],
    vocabularies: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    *,
    precision: str = "float32",
    source_end: bool = False,
) -> None:
    """Write model.bin, config.json and the vocabularies into an existing directory.

    Args:
        config: a model that `unsupported` accepts.
        tensors: returns a parameter by its name in `headwise.models.transformer`, in float32; None if there is none.
        vocabularies: the source and target token of each id.
        folder: an existing directory.
        precision: one of `PRECISIONS`; int8 has one scale for each row of a matrix.
        source_end: whether CTranslate2 adds the end symbol to a source.
    """
    from ctranslate2.specs import Activation, TransformerSpec
    from ctranslate2.specs.model_spec import index_spec

    assert unsupported(config) is None
    spec: Any = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(Activation, ACTIVATIONS[config.activation]),
        ffn_glu=config.gated,
        rms_norm=config.normalization == "rms",
    )
    for scope, modules in linear_layers(config).items():
        _set_linear(index_spec(spec, scope), tensors, modules)
    for scope, module in norms(config).items():
        norm = index_spec(spec, scope)
        norm.gamma = _array(tensors(f"{module}.weight"))
        if config.normalization == "layer":
            norm.beta = _array(tensors(f"{module}.bias"))
    _set_embeddings(spec, config, tensors, index_spec)
    for tokens, register in zip(
        vocabularies, (spec.register_source_vocabulary, spec.register_target_vocabulary), strict=True
    ):
        register(list(tokens))
    spec.config.add_source_eos = source_end
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(str(folder))


def _set_linear(spec: Any, tensors: Callable[[str], Array | None], modules: Sequence[str]) -> None:
    """Set the weight and the bias, if there is one, of modules joined along the output dimension."""
    spec.weight = _array(*(tensors(f"{module}.weight") for module in modules))
    if (bias := tensors(f"{modules[0]}.bias")) is not None:
        spec.bias = _array(bias, *(tensors(f"{module}.bias") for module in modules[1:]))


def _set_embeddings(
    spec: Any, config: ModelConfig, tensors: Callable[[str], Array | None], index_spec: Callable[..., Any]
) -> None:
    """Set the embeddings, the positions and the output projection; equal matrices are stored once."""
    parameters = {name: _array(tensors(name)) for name in dict.fromkeys(embeddings(config))}
    source, target, output = (parameters[name] for name in embeddings(config))
    index_spec(spec, SOURCE_EMBEDDING.removesuffix("/weight")).weight = source
    index_spec(spec, TARGET_EMBEDDING.removesuffix("/weight")).weight = target
    index_spec(spec, PROJECTION).weight = output
    if (bias := tensors("logit_bias")) is not None:
        index_spec(spec, PROJECTION).bias = _array(bias)
    table = _array(_positions(config, tensors))
    for side in SIDES:
        index_spec(spec, side).scale_embeddings = config.scale_embeddings
        index_spec(spec, POSITIONS.format(side=side).removesuffix("/encodings")).encodings = table


def _positions(config: ModelConfig, tensors: Callable[[str], Array | None]) -> Array | None:
    if config.positions == "learned":
        return tensors("positions.table")
    if config.positions == "none":
        return np.zeros((config.max_length, config.d_model), dtype=np.float32)
    return sinusoids(config.max_length, config.d_model)


def _array(*parts: Array | None) -> Any:
    """Return tensors as one NumPy array, joined along the first dimension."""
    present = [part for part in parts if part is not None]
    assert present
    assert len(present) == len(parts)
    return np.concatenate(present)

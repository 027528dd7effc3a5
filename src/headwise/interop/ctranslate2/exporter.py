"""Export to CTranslate2, by its own model specifications.

What is written is a directory for `ctranslate2.Translator`, with the SentencePiece models beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from headwise.config import Config, ModelConfig
from headwise.engine.native.positions import sinusoids
from headwise.extras import installed, not_installed
from headwise.files import write_bytes
from headwise.interop import base
from headwise.interop.base import Array, Trained
from headwise.interop.ctranslate2.layout import ACTIVATIONS, table, unsupported
from headwise.interop.pieces import source_code_notes, symbol_notes
from headwise.interop.table import their_tensors

PRECISIONS = ("float32", "float16", "bfloat16", "int8")  # in which weights can be stored
_SPM_FILES = ("source.spm", "target.spm")


class Exporter(base.Exporter):
    """Writer of CTranslate2 directories."""

    library = "CTranslate2"
    precisions = PRECISIONS

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        return unsupported(config.model)

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        write_model(trained, folder, precision, "--to ctranslate2")
        for name, content in zip(_SPM_FILES, trained.sentencepiece(), strict=True):
            write_bytes(folder / name, content)
        subwords = trained.subwords
        prefix = subwords.target_pieces(subwords.given[:1])
        return [
            *source_code_notes(subwords),
            *symbol_notes(subwords),
            *(f"translate_batch needs target_prefix=[[{piece!r}], …], one for each text" for piece in prefix),
            f"{' and '.join(_SPM_FILES)} split text into the tokens that ctranslate2.Translator takes and returns; "
            "it adds the end symbol of a source itself",
        ]


def write_model(trained: Trained, folder: Path, precision: str, place: str) -> None:
    """Write CTranslate2's own files, whose tokens are the subwords, into an existing directory.

    Raises `ConfigError` from `place` where CTranslate2 isn't installed.
    """
    if not installed("ctranslate2"):  # importing it takes longer
        raise not_installed(place, "ctranslate2")
    model, vocabularies = trained.config.model, trained.subwords.lists()
    convert(model, trained.weights.get, vocabularies, folder, precision=precision, source_end=model.source_end)


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

    @lru_cache(maxsize=1)  # a matrix that is tied to others is read once, as these follow one another
    def ours(name: str) -> Array | None:
        if name == "positions.table" and config.positions == "sinusoidal":
            return sinusoids(config.max_length, config.d_model)
        return tensors(name)

    for name, tensor in their_tensors(table(config), ours).items():
        scope, _, part = name.rpartition("/")
        setattr(index_spec(spec, scope), part, tensor)
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = config.scale_embeddings
    spec.register_source_vocabulary(list(vocabularies[0]))
    spec.register_target_vocabulary(list(vocabularies[1]))
    spec.config.add_source_eos = source_end
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    spec.optimize(quantization=precision)
    spec.save(str(folder))

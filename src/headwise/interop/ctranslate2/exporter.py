"""Export to CTranslate2: a directory for `ctranslate2.Translator`, with the SentencePiece models beside it."""

from __future__ import annotations

from pathlib import Path

from headwise.config import Config
from headwise.files import write_bytes
from headwise.interop import base
from headwise.interop.base import Trained
from headwise.interop.ctranslate2.conversion import PRECISIONS, check_installed, convert
from headwise.interop.ctranslate2.layout import unsupported
from headwise.interop.pieces import source_code_notes

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
            *(f"translate_batch needs target_prefix=[[{piece!r}], …], one for each text" for piece in prefix),
            f"{' and '.join(SPM_FILES)} split text into the tokens that ctranslate2.Translator takes and returns; "
            "it adds the end symbol of a source itself",
        ]


def write_model(trained: Trained, folder: Path, precision: str, place: str) -> None:
    """Write CTranslate2's own files, whose tokens are the subwords, into an existing directory.

    Raises `ConfigError` from `place` where CTranslate2 isn't installed.
    """
    check_installed(place)
    subwords = trained.subwords
    vocabularies = (
        subwords.source_pieces(range(subwords.source_size)),
        subwords.target_pieces(range(subwords.target_size)),
    )
    model = trained.config.model
    convert(
        model,
        trained.weights.get,
        vocabularies,
        folder,
        precision=precision,
        source_end=model.source_end,
    )

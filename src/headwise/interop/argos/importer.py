"""Import of Argos packages, `.argosmodel` or unpacked."""

from __future__ import annotations

from pathlib import Path

from headwise.errors import CheckpointError
from headwise.interop import base
from headwise.interop.argos.package import METADATA, MODEL, SUBWORDS, SUFFIX, Metadata, opened, read_metadata
from headwise.interop.base import Imported
from headwise.interop.ctranslate2.importer import read_directory
from headwise.text.tokens.subwords import Subwords, read_file


class Importer(base.Importer):
    """Reader of Argos packages."""

    def recognizes(self, source: Path) -> bool:  # noqa: D102
        if source.is_file():
            return source.name.endswith(SUFFIX)
        return (source / METADATA).is_file() and (source / MODEL / "model.bin").is_file()

    def read(self, source: Path) -> Imported:  # noqa: D102
        with opened(source) as folder:
            metadata = read_metadata(folder)
            if not (folder / SUBWORDS).is_file():
                found = (
                    "bpe.model, which needs Moses' tokenizer" if (folder / "bpe.model").is_file() else "none"
                )
                raise CheckpointError(f"{source}: expected {SUBWORDS}, found {found}")
            model = read_file(folder / SUBWORDS)
            imported = read_directory(folder / MODEL, (model, model), target_language=metadata.target_prefix)
        imported.notes.extend(_notes(metadata, imported))
        return imported.in_languages(metadata.from_code, metadata.to_code)


def _notes(metadata: Metadata, imported: Imported) -> list[str]:
    notes = [
        f"translates from {metadata.from_code or 'an unnamed language'} to {metadata.to_code or 'another'}"
    ]
    assert isinstance(imported.text, Subwords)
    if metadata.target_prefix and not imported.text.given:
        notes.append(
            f"Argos Translate begins every translation with {metadata.target_prefix!r}, "
            "which the vocabulary doesn't have"
        )
    return notes

"""Packages of Argos Translate and LibreTranslate, in and out.

A package is a CTranslate2 model and a SentencePiece model in one folder, in a zip file `.argosmodel` or unpacked.
"""

from __future__ import annotations

import json
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headwise.config import Config
from headwise.config.languages import language_name
from headwise.errors import CheckpointError, ConfigError
from headwise.files import DamagedArchive, disk_errors, opened_zip, write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import Imported, Trained
from headwise.interop.ctranslate2 import importer
from headwise.interop.ctranslate2.exporter import PRECISIONS, write_model
from headwise.interop.ctranslate2.layout import unsupported
from headwise.interop.pieces import source_code_notes, symbol_notes
from headwise.parsing import checked, read_object
from headwise.text.tokens.subwords import Subwords, read_file

_SUFFIX = ".argosmodel"
_METADATA, _SUBWORDS, _MODEL = "metadata.json", "sentencepiece.model", "model"

_MOST_BYTES = 1 << 20  # of metadata.json
_MOST_MEMBERS = 10_000
_EXPANSION = 20  # a package unpacks to at most so many times its size …
_ALLOWANCE = 64 << 20  # … and so many bytes; parameters hardly compress
_WANTED = re.compile(
    rf"{re.escape(_METADATA)}|{re.escape(_SUBWORDS)}|bpe\.model"
    rf"|{_MODEL}/(model\.bin|config\.json|\w+_vocabulary\.(json|txt))"
)
_VERSION = "1.0"  # of the package
_ARGOS = "1.9"  # the version of Argos Translate whose layout of packages this is

_Code = Annotated[str, Field(max_length=100)]


class Metadata(BaseModel):
    """What metadata.json says; other keys aren't about the translation."""

    model_config = ConfigDict(extra="ignore")

    type: _Code = "translate"
    from_code: _Code | None = None
    to_code: _Code | None = None
    target_prefix: _Code = ""


def read_metadata(folder: Path) -> Metadata:
    """Read metadata.json; raises `CheckpointError` if it is damaged or isn't a translator's."""
    file = folder / _METADATA
    metadata = checked(Metadata, read_object(file, error=CheckpointError, most=_MOST_BYTES), file)
    if metadata.type != "translate":
        raise CheckpointError(f"{file}: type: expected translate, found {metadata.type!r}")
    return metadata


@contextmanager
def opened(source: Path) -> Iterator[Path]:
    """Yield the folder of a package, unpacked to a temporary directory if it is a zip file.

    Raises `CheckpointError` for a damaged or hostile zip file before anything is unpacked. Errors inside the block name
    the package in place of the temporary directory.
    """
    if source.is_dir():
        yield source
        return
    # On Windows a file that is still mapped can't be removed.
    with tempfile.TemporaryDirectory(prefix="headwise-", ignore_cleanup_errors=True) as folder:
        try:
            with opened_zip(source) as archive:
                _unpack(archive, _members(archive, source), Path(folder))
        except DamagedArchive as error:
            raise CheckpointError(f"{source}: expected an Argos package, found a damaged zip file ({error})") from None
        try:
            yield Path(folder)
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(folder, str(source))) from None


def _members(archive: zipfile.ZipFile, source: Path) -> dict[str, zipfile.ZipInfo]:
    """Return the members that are needed, by their names inside the package's folder.

    Raises `CheckpointError` for names that lead out of it, links, several packages, or a size that no model has.
    """
    entries = archive.infolist()
    if len(entries) > _MOST_MEMBERS:
        raise CheckpointError(f"{source}: expected at most {_MOST_MEMBERS:,} files, found {len(entries):,}")
    wanted: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        path = PurePosixPath(entry.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in entry.filename or ":" in entry.filename:
            raise CheckpointError(f"{source}: expected names inside the package, found {entry.filename[:60]!r}")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise CheckpointError(f"{source}: expected files, found {entry.filename[:60]!r}, which is a link")
        inside = "/".join(path.parts[1:])
        if _WANTED.fullmatch(inside) and not entry.is_dir():
            if inside in wanted:
                raise CheckpointError(f"{source}: expected one package, found {inside} twice")
            wanted[inside] = entry
    size, most = sum(e.file_size for e in wanted.values()), _EXPANSION * source.stat().st_size + _ALLOWANCE
    if size > most:
        raise CheckpointError(f"{source}: expected a package that unpacks to at most {most:,} bytes, found {size:,}")
    for name in (_METADATA, f"{_MODEL}/model.bin"):
        if name not in wanted:
            raise CheckpointError(f"{source}: expected {name} in the folder of the package, found none")
    return wanted


def _unpack(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], folder: Path) -> None:
    """Write members under their names; none becomes larger than its header says, which `zipfile` sees to.

    Raises `TrainingError` where the disk is full.
    """
    (folder / _MODEL).mkdir()
    for name, entry in members.items():
        file_name = folder / name
        with archive.open(entry) as content, disk_errors(file_name), open(file_name, "wb") as file:
            shutil.copyfileobj(content, file)


def recognizes(source: Path) -> bool:
    """Whether a source is a package: a zip file with its suffix, or a directory with its files."""
    if source.is_file():
        return source.name.endswith(_SUFFIX)
    return (source / _METADATA).is_file() and (source / _MODEL / "model.bin").is_file()


def read(source: Path) -> Imported:
    """Read a package; raises `CheckpointError` for one that is damaged or needs Moses' tokenizer."""
    with opened(source) as folder:
        metadata = read_metadata(folder)
        if not (folder / _SUBWORDS).is_file():
            found = "bpe.model, which needs Moses' tokenizer" if (folder / "bpe.model").is_file() else "none"
            raise CheckpointError(f"{source}: expected {_SUBWORDS}, found {found}")
        model = read_file(folder / _SUBWORDS)
        imported = importer.read(folder / _MODEL, (model, model), target_language=metadata.target_prefix)
    imported.notes.extend(_notes(metadata, imported))
    return imported.in_languages(metadata.from_code, metadata.to_code)


def _notes(metadata: Metadata, imported: Imported) -> list[str]:
    notes = [f"translates from {metadata.from_code or 'an unnamed language'} to {metadata.to_code or 'another'}"]
    assert isinstance(imported.text, Subwords)
    if metadata.target_prefix and not imported.text.given:
        notes.append(
            f"Argos Translate begins every translation with {metadata.target_prefix!r}, "
            "which the vocabulary doesn't have"
        )
    return notes


class Exporter(base.Exporter):
    """Writer of Argos packages."""

    library = "Argos Translate"
    precisions = PRECISIONS
    suffix = _SUFFIX
    names_languages = True

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        if not config.subwords.joint:
            return "it has one SentencePiece model for both languages, found subwords.joint=false"
        return unsupported(config.model)

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        source, target = _languages(trained)
        trained.check_joiners()
        source_model, target_model = trained.sentencepiece()
        if source_model != target_model:
            raise ConfigError(
                f"--to argos: expected one SentencePiece model for both languages, found two in {trained.run}"
            )
        package = folder / f"translate-{source}_{target}-{_VERSION.replace('.', '_')}"
        (package / _MODEL).mkdir(parents=True)
        write_model(trained, package / _MODEL, precision, "--to argos")
        write_bytes(package / _SUBWORDS, source_model)
        metadata = {
            "package_version": _VERSION,
            "argos_version": _ARGOS,
            "from_code": source,
            "from_name": language_name(source),
            "to_code": target,
            "to_name": language_name(target),
        }
        if given := trained.subwords.given:
            (metadata["target_prefix"],) = trained.subwords.target_pieces(given[:1])
        write_text(package / _METADATA, json.dumps(metadata, ensure_ascii=False, indent=2) + "\n")
        return [
            *source_code_notes(trained.subwords),
            *symbol_notes(trained.subwords),
            f"translates from {metadata['from_name']} to {metadata['to_name']}; argospm install takes the file, "
            "and its sentence splitter downloads a model at the first translation",
        ]


def _languages(trained: Trained) -> tuple[str, str]:
    """Return the language codes; raises `ConfigError` where they aren't known."""
    source, target = trained.languages
    if source is None or target is None:
        option = "--from-language" if source is None else "--to-language"
        raise ConfigError(
            f"--to argos: expected {option}, a code such as en or de, as the training files don't tell it"
        )
    if source == target:
        raise ConfigError(f"--to argos: expected two languages, found {source} twice")
    return source, target

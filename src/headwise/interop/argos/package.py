"""The files of an Argos package: a zip file `.argosmodel` with one folder, or that folder unpacked."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headwise.errors import CheckpointError
from headwise.parsing import parse_object, read_bounded

SUFFIX = ".argosmodel"
METADATA, SUBWORDS, MODEL = "metadata.json", "sentencepiece.model", "model"

_MOST_BYTES = 1 << 20  # of metadata.json
_MOST_MEMBERS = 10_000
_EXPANSION = 20  # a package unpacks to at most so many times its size …
_ALLOWANCE = 64 << 20  # … and so many bytes; parameters hardly compress
_WANTED = re.compile(
    rf"{re.escape(METADATA)}|{re.escape(SUBWORDS)}|bpe\.model"
    rf"|{MODEL}/(model\.bin|config\.json|\w+_vocabulary\.(json|txt))"
)

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
    file = folder / METADATA
    content = parse_object(
        read_bounded(file, _MOST_BYTES, CheckpointError, "a JSON object"), file, error=CheckpointError
    )
    try:
        metadata = Metadata.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        raise CheckpointError(
            f"{file}: {'.'.join(map(str, problem['loc']))}: {problem['msg'].lower()}"
        ) from None
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
            with zipfile.ZipFile(source) as archive:
                _unpack(archive, _members(archive, source), Path(folder))
        except (
            OSError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(
                f"{source}: expected an Argos package, found a damaged zip file ({reason})"
            ) from None
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
            raise CheckpointError(
                f"{source}: expected names inside the package, found {entry.filename[:60]!r}"
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise CheckpointError(f"{source}: expected files, found {entry.filename[:60]!r}, which is a link")
        inside = "/".join(path.parts[1:])
        if _WANTED.fullmatch(inside) and not entry.is_dir():
            if inside in wanted:
                raise CheckpointError(f"{source}: expected one package, found {inside} twice")
            wanted[inside] = entry
    size, most = sum(e.file_size for e in wanted.values()), _EXPANSION * source.stat().st_size + _ALLOWANCE
    if size > most:
        raise CheckpointError(
            f"{source}: expected a package that unpacks to at most {most:,} bytes, found {size:,}"
        )
    for name in (METADATA, f"{MODEL}/model.bin"):
        if name not in wanted:
            raise CheckpointError(f"{source}: expected {name} in the folder of the package, found none")
    return wanted


def _unpack(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], folder: Path) -> None:
    """Write members under their names; none becomes larger than its header says, which `zipfile` sees to."""
    (folder / MODEL).mkdir()
    for name, entry in members.items():
        with archive.open(entry) as content, open(folder / name, "wb") as file:
            shutil.copyfileobj(content, file)

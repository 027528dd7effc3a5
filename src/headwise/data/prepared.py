"""Prepared folders: data that is preprocessed once and reused, for every task.

`prepare_folder` opens a folder that was made from the same request (configuration and files), or makes a new one, which
appears in one rename: a kill leaves either all of it or nothing. Another process waits, and then finds it ready. Its
manifest holds the request, a checksum of the contents of the input files, and the preprocessing report.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, NonNegativeInt, ValidationError

from headwise.errors import CheckpointError, DataError
from headwise.files import atomic_directory, file_sha256, locked, read_errors, remove_partial, write_text
from headwise.parsing import read_json

MANIFEST = "manifest.json"


class _Prepared(Protocol):
    @property
    def checksum(self) -> str: ...


Data = TypeVar("Data", bound=_Prepared)


def prepare_folder(
    directory: Path,
    request: Mapping[str, Any],
    open_folder: Callable[..., Data],
    build: Callable[[Path, dict[str, Any]], None],
    expected: str | None = None,
) -> Data:
    """Open a prepared folder that was made from the same request; make it if there is none, or another or damaged one.

    Args:
        directory: the prepared folder.
        request: everything that the folder depends on, as JSON values; `inputs` are the stamps of the files (`stamp`).
        open_folder: opens the folder, and is told whether it is `reused`.
        build: fills a new folder by a request with checksums, and writes the manifest last (see `write_manifest`).
        expected: the checksum of the files that a run was started with; data from other files isn't used, and doesn't
            replace `directory`.

    Raises:
        CheckpointError: the files aren't the expected ones.
        DataError: a file is missing, or `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    with alone(directory):
        if _is_current(directory, request):
            with suppress(CheckpointError):  # damaged, so it is made again
                prepared = open_folder(directory)
                if expected in (None, prepared.checksum):
                    return prepared
        _check_replaceable(directory)
        inputs = [{**entry, "sha256": file_sha256(Path(entry["path"]))} for entry in request["inputs"]]
        if expected is not None and (checksum := _combined(inputs)) != expected:
            names = ", ".join(Path(entry["path"]).name for entry in inputs)
            raise CheckpointError(
                f"{directory.parent}: was begun with other text (checksum {expected}) than {names} (checksum "
                f"{checksum}); use another run directory, or --restart to begin anew"
            )
        remove_partial(directory)
        with atomic_directory(directory) as folder:
            build(folder, {**request, "inputs": inputs})
    return open_folder(directory, reused=False)


def _is_current(directory: Path, request: Mapping[str, Any]) -> bool:
    """Whether the folder was made from the same configuration and files.

    A file with the same size and modification time counts as unchanged; one with another time is compared by its
    checksum, so a copied or touched corpus isn't prepared again.
    """
    try:
        manifest = read_json(directory / MANIFEST)
        recorded, touched = manifest["request"], False
        if _with_sizes(recorded) != _with_sizes(request):
            return False
        for old, new in zip(recorded["inputs"], request["inputs"], strict=True):
            if old["changed"] != new["changed"]:
                if old["sha256"] != file_sha256(Path(new["path"])):
                    return False
                old["changed"], touched = new["changed"], True
    except (OSError, ValueError, KeyError, TypeError):  # a `DataError` is a ValueError
        return False
    if touched:
        write_text(directory / MANIFEST, _dump(manifest))
    return True


def _with_sizes(request: Mapping[str, Any]) -> dict[str, Any]:
    return {**request, "inputs": [entry["size"] for entry in request["inputs"]]}


def stamp(path: Path) -> dict[str, Any]:
    """Return path, size and modification time of an input file; raises `DataError` if it can't be read (twice)."""
    with read_errors(path):
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise DataError(f"{path}: expected a file, found a pipe or device, which can't be read twice")
    return {"path": str(path.resolve()), "size": status.st_size, "changed": status.st_mtime_ns}


def files_checksum(paths: Iterable[Path]) -> str:
    """Return the checksum of the contents of files, 12 hexadecimal digits; raises `DataError` as `stamp`."""
    return _combined([{"sha256": file_sha256(Path(stamp(path)["path"]))} for path in paths])


def write_manifest(folder: Path, request: Mapping[str, Any], report: list[str], **more: Any) -> None:
    """Write the manifest: the request that `prepare_folder` gave, the report, and `more` fields to open the folder."""
    manifest = {"request": request, "checksum": _combined(request["inputs"]), **more, "report": report}
    write_text(folder / MANIFEST, _dump(manifest))


def _combined(inputs: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.sha256("".join(entry["sha256"] for entry in inputs).encode()).hexdigest()[:12]


def _dump(manifest: dict[str, Any]) -> str:
    return json.dumps(manifest, ensure_ascii=False, indent=1)


def _check_replaceable(directory: Path) -> None:
    """Raise `DataError` if it is a file, or a folder with files but no manifest: Headwise didn't make it."""
    if directory.is_file() or (directory.exists() and not (directory / MANIFEST).exists() and any(directory.iterdir())):
        raise DataError(
            f"{directory}: expected a new folder or one with prepared text, found "
            f"{'a file' if directory.is_file() else 'other files in it'}"
        )


def read_manifest(directory: Path, *needed: str) -> dict[str, Any]:
    """Read the manifest of a prepared folder; `needed` are the dotted names of fields that it must have.

    Raises `CheckpointError` if it is missing or damaged.
    """
    try:
        manifest = read_json(directory / MANIFEST)
    except DataError as problem:
        found = f"no readable {MANIFEST} ({problem})" if (directory / MANIFEST).exists() else "none"
        raise CheckpointError(f"{directory}: expected prepared data, found {found}") from None
    try:
        _Manifest.model_validate(manifest)
        for name in needed:
            part = manifest
            for key in name.split("."):
                part = part[key]
    except (ValidationError, KeyError, TypeError):
        raise CheckpointError(
            f"{directory / MANIFEST}: expected what Headwise writes of prepared text, found something else"
        ) from None
    return manifest


class _Manifest(BaseModel, strict=True):
    """The fields of every manifest, and two that some have."""

    request: dict[str, Any]
    checksum: str
    report: list[str]
    names: list[str] | dict[str, list[str]] = []
    characters: dict[str, NonNegativeInt] = {}


def alone(directory: Path) -> AbstractContextManager[None]:
    """Hold an exclusive lock for making `directory`; other processes wait, and then find it ready."""
    return locked(directory.with_name(f".{directory.name}.lock"), directory, wait=True)

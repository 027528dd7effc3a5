"""A prepared folder: data made once, found ready ever after, for every task.

Under the lock of `alone`, `find_prepared` opens a folder that was made from the same request (configuration and files),
and `replaced` makes a new one. That appears in one rename, so a kill at any time leaves either all of it or nothing.
Its manifest holds the request, a checksum of the input files' contents, and the report of what was done.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeGuard, TypeVar

from headwise.errors import CheckpointError, DataError
from headwise.files import atomic_directory, disk_errors, read_errors, remove_partial, write_text
from headwise.parsing.json_text import read_json

MANIFEST = "manifest.json"


class _Prepared(Protocol):
    @property
    def checksum(self) -> str: ...


Data = TypeVar("Data", bound=_Prepared)


def find_prepared(
    directory: Path,
    request: Mapping[str, Any],
    open_folder: Callable[[Path], Data],
    expected: str | None = None,
) -> Data | None:
    """Open a prepared folder that was made from the same request; None where there is none, or it is damaged.

    Args:
        directory: the folder.
        request: all that it depends on, as JSON values; `inputs` are the files' stamps (see `stamp`).
        open_folder: opens it; its result has the manifest's `checksum`.
        expected: the checksum of the files that a run was begun with; a folder of others isn't opened.
    """
    if not _is_current(directory, request):
        return None
    try:
        prepared = open_folder(directory)
    except CheckpointError:  # it is made again
        return None
    return prepared if expected in (None, prepared.checksum) else None


@contextmanager
def replaced(directory: Path, request: Mapping[str, Any], expected: str | None = None) -> Iterator[Path]:
    """Yield a new folder to be filled; it takes the place of `directory` when the block ends well.

    The last thing written into it is the manifest (see `write_manifest`). With `expected`, the checksum of the files
    that a run was begun with, nothing is replaced by what is made from others.

    Raises:
        CheckpointError: the files aren't the expected ones.
        DataError: a file is missing, or `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    if expected is not None and (found := files_checksum(request)) != expected:
        names = ", ".join(Path(stamp["path"]).name for stamp in request["inputs"])
        raise CheckpointError(
            f"{directory.parent}: was begun with other text (checksum {expected}) than {names} (checksum "
            f"{found}); use another run directory, or --restart to begin anew"
        )
    _check_replaceable(directory)
    remove_partial(directory)
    with atomic_directory(directory) as folder:
        yield folder


def _is_current(directory: Path, request: Mapping[str, Any]) -> bool:
    """Whether the folder was made from the same configuration and files.

    Files are taken as unchanged where size and time of change are; a file with another time is compared by its
    checksum, so a copied or touched corpus isn't prepared again.
    """
    try:
        found = read_json(directory / MANIFEST)
        had = found["request"]
        if {**had, "inputs": None} != {**request, "inputs": None} or len(had["inputs"]) != len(
            request["inputs"]
        ):
            return False
        touched = False
        for before, now in zip(had["inputs"], request["inputs"], strict=True):
            if before["size"] != now["size"]:
                return False
            if before["changed"] != now["changed"]:
                if before["sha256"] != _checksum(Path(now["path"])):
                    return False
                before["changed"], touched = now["changed"], True
    except (OSError, ValueError, KeyError, TypeError):  # a `DataError` is a ValueError
        return False
    if touched:
        write_text(directory / MANIFEST, _dump(found))
    return True


def stamp(path: Path) -> dict[str, Any]:
    """What tells whether an input file is still the same; raises `DataError` where it can't be read (twice)."""
    with read_errors(path):
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise DataError(f"{path}: expected a file, found a pipe or device, which can't be read twice")
    return {"path": str(path.resolve()), "size": status.st_size, "changed": status.st_mtime_ns}


def files_checksum(request: Mapping[str, Any]) -> str:
    """Return 12 hexadecimal digits of all input files' contents, which are read for it; raises `DataError`."""
    return _joined(_checksum(Path(stamp["path"])) for stamp in request["inputs"])


def with_checksums(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with the checksum of each input's contents in its stamp; raises `DataError`."""
    inputs = [{**found, "sha256": _checksum(Path(found["path"]))} for found in request["inputs"]]
    return {**request, "inputs": inputs}


def write_manifest(folder: Path, request: Mapping[str, Any], report: list[str], **more: Any) -> None:
    """Write what the folder was made from, its checksums included, and `more` that opening it takes."""
    checksum = _joined(input_file["sha256"] for input_file in request["inputs"])
    manifest = {"request": request, "checksum": checksum, **more, "report": report}
    write_text(folder / MANIFEST, _dump(manifest))


def _joined(checksums: Iterable[str]) -> str:
    return hashlib.sha256("".join(checksums).encode()).hexdigest()[:12]


def _checksum(path: Path) -> str:
    with read_errors(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _dump(manifest: dict[str, Any]) -> str:
    return json.dumps(manifest, ensure_ascii=False, indent=1)


def _check_replaceable(directory: Path) -> None:
    """Refuse to replace a folder that Headwise didn't make."""
    if directory.exists() and not (directory / MANIFEST).exists() and any(directory.iterdir()):
        raise DataError(
            f"{directory}: expected a new folder or one with prepared text, found other files in it"
        )


def read_manifest(directory: Path, *needed: str) -> dict[str, Any]:
    """Read what a prepared folder says of itself, its `needed` parts by their dotted names among it.

    Raises `CheckpointError` where it doesn't.
    """
    try:
        manifest = read_json(directory / MANIFEST)
    except DataError as problem:
        raise CheckpointError(
            f"{directory}: expected prepared text, found no readable {MANIFEST} ({problem})"
        ) from None
    if not _is_manifest(manifest) or not all(_has(manifest, name.split(".")) for name in needed):
        raise CheckpointError(
            f"{directory / MANIFEST}: expected what Headwise writes of prepared text, found something else"
        )
    return manifest


def _is_manifest(found: Any) -> TypeGuard[dict[str, Any]]:
    """Whether it has the parts that every prepared folder's manifest has, and of the names those there are."""
    if not isinstance(found, dict) or not isinstance(found.get("request"), dict):
        return False
    names = found.get("names", [])
    listed = [found.get("report"), *(names.values() if isinstance(names, dict) else [names])]
    counts = found.get("characters", {})
    if not isinstance(counts, dict) or not all(
        isinstance(count, int) and count >= 0 for count in counts.values()
    ):
        return False
    texts = all(isinstance(part, list) and all(isinstance(text, str) for text in part) for part in listed)
    return texts and isinstance(found.get("checksum"), str)


def _has(tree: Any, names: Sequence[str]) -> bool:
    return not names or (isinstance(tree, dict) and names[0] in tree and _has(tree[names[0]], names[1:]))


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Let one process at a time make `directory`; the others wait and then find it ready."""
    lock = directory.with_name(f".{directory.name}.lock")
    with disk_errors(directory):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.name == "posix":
            import fcntl  # there is none on Windows

            with disk_errors(lock):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

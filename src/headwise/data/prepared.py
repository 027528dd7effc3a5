"""A prepared folder: data made once, found ready ever after, for every task.

`ready` opens a folder that was made from the same request (configuration and files) or makes it. The folder appears
in one rename, so a kill at any time leaves either all of it or nothing. Its manifest holds the request, a checksum of
the input files' contents, and the report of what was done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def ready(
    directory: Path,
    wanted: dict[str, Any],
    make: Callable[[Path], None],
    open_it: Callable[[bool], Data],
    expected: str | None = None,
) -> Data:
    """Open a prepared folder, or make it where it isn't there or was made from something else.

    Args:
        directory: the folder; if it exists and doesn't fit, it is replaced.
        wanted: all that it depends on, as JSON values; `inputs` are the files' stamps (see `stamp`).
        make: fills a new folder; the last thing it does is `write_manifest`.
        open_it: opens `directory`, told whether it was found ready; its result has the manifest's `checksum`.
        expected: the checksum of the files that a run was begun with; with any others, nothing is replaced.

    Raises:
        CheckpointError: the files aren't the expected ones.
        DataError: a file is missing, or `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    with alone(directory):
        if find_reusable(directory, wanted):
            with contextlib.suppress(CheckpointError):  # a damaged folder is made again
                prepared = open_it(True)
                if expected in (None, prepared.checksum):
                    return prepared
        if expected is not None and (found := files_checksum(wanted)) != expected:
            names = ", ".join(Path(stamp["path"]).name for stamp in wanted["inputs"])
            raise CheckpointError(
                f"{directory.parent}: was begun with other text (checksum {expected}) than {names} (checksum "
                f"{found}); use another run directory, or --restart to begin anew"
            )
        _check_replaceable(directory)
        remove_partial(directory)
        with atomic_directory(directory) as folder:
            make(folder)
    return open_it(False)


def find_reusable(directory: Path, wanted: dict[str, Any]) -> bool:
    """Whether the folder was made from the same configuration and files.

    Files are taken as unchanged where size and time of change are; a file with another time is compared by its
    checksum, so a copied or touched corpus isn't prepared again.
    """
    try:
        found = read_json(directory / MANIFEST)
        had = found["request"]
        if {**had, "inputs": None} != {**wanted, "inputs": None} or len(had["inputs"]) != len(
            wanted["inputs"]
        ):
            return False
        touched = False
        for before, now in zip(had["inputs"], wanted["inputs"], strict=True):
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


def files_checksum(wanted: dict[str, Any]) -> str:
    """Return 12 hexadecimal digits of all input files' contents, which are read for it; raises `DataError`."""
    return _joined(_checksum(Path(stamp["path"])) for stamp in wanted["inputs"])


def add_checksums(wanted: dict[str, Any]) -> None:
    """Add to each input's stamp the checksum of its contents; raises `DataError`."""
    for input_file in wanted["inputs"]:
        input_file["sha256"] = _checksum(Path(input_file["path"]))


def write_manifest(folder: Path, wanted: dict[str, Any], report: list[str], **more: Any) -> None:
    """Write what the folder was made from, having its `add_checksums`, and `more` that opening it takes."""
    checksum = _joined(input_file["sha256"] for input_file in wanted["inputs"])
    manifest = {"request": wanted, "checksum": checksum, **more, "report": report}
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

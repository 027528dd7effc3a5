"""Reading and writing files: what goes wrong is one error that names the path, and nothing is left half-written.

Every file or folder is made beside its final place, flushed to the disk, and then renamed: whoever looks sees
the old one or the new one, whole. What the operating system refuses becomes a `DataError` on reading and a
`TrainingError` on writing.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headwise.errors import DataError, TrainingError

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_TEMPORARY = ".partial-"  # in the names of everything that isn't finished yet
_UMASK = os.umask(0)  # can only be read by setting it, so once, before there are threads
os.umask(_UMASK)


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn what can go wrong while reading `path` into a `DataError`."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: expected a text file, found a directory") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: expected a whole gzip file, found a damaged one ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror or error})") from None


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` raised inside into a `TrainingError` that names `path` and what is wrong with it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise TrainingError(f"{path}: can't be written because the disk is full") from error
        reason = error.strerror or str(error)
        raise TrainingError(f"{path}: can't be written ({reason})") from error


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a new file for binary writing that takes the place of `path` when the block ends well.

    If the block raises, `path` is left as it was. Raises `TrainingError` where the disk is full or the folder
    can't be written.
    """
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}{_TEMPORARY}", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_UMASK)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Replace the file at `path` by `data`, all or nothing; raises `TrainingError`."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: str | Path, text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, all or nothing; raises `TrainingError`."""
    write_bytes(path, text.encode("utf-8"))


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Give a new empty folder that takes the place of `path` when the block ends well.

    Everything written below it is flushed to the disk before the rename. If the block raises, the new folder
    is removed and `path` is left as it was. A folder that already stands at `path` is replaced.

    Raises:
        TrainingError: the disk is full or the parent folder can't be written.
    """
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}{_TEMPORARY}", dir=path.parent))
        try:
            yield temporary
            os.chmod(temporary, 0o777 & ~_UMASK)
            _sync_tree(temporary)
            _put_in_place(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(path.parent)


@contextmanager
def hold(folder: str | Path) -> Iterator[None]:
    """Keep other processes that want to `hold` this folder out while the block runs; it is made where it is missing.

    Raises `TrainingError` where another process holds it, or it can't be written. Ends with the process, however
    that ends. There is no such protection on Windows.
    """
    folder = Path(folder)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.name == "posix":
            import fcntl  # there is none on Windows

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TrainingError(f"{folder}: is being trained in by another process") from None
        yield
    finally:
        os.close(handle)


def remove_directory(path: str | Path) -> None:
    """Remove a folder, all or nothing for whoever looks for it: a kill on the way leaves no half of it at `path`.

    What can't be removed stays without an error, as does what isn't there.
    """
    path = Path(path)
    if path.is_dir():
        with contextlib.suppress(OSError):
            shutil.rmtree(_move_aside(path), ignore_errors=True)


def remove_partial(path: str | Path) -> None:
    """Remove what interrupted calls of this module for `path` left beside it.

    The name may be a pattern; `folder / "*"` stands for everything in a folder.
    Only call it where no other process can be writing `path` at the same time.
    """
    path = Path(path)
    for leftover in path.parent.glob(f".{path.name}{_TEMPORARY}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def sync_directory(path: str | Path) -> None:
    """Flush a folder's own entries, so that a rename inside it survives a power cut."""
    if os.name == "nt":  # Windows can't open a folder; its renames are journaled
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(new: Path, path: Path) -> None:
    if not path.exists():
        os.rename(new, path)
        return
    old = _move_aside(path)
    os.rename(new, path)
    shutil.rmtree(old, ignore_errors=True)


def _move_aside(path: Path) -> Path:
    """Rename a folder so that nobody finds it any more; returns what is to be removed."""
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}{_TEMPORARY}", dir=path.parent))
    os.rename(path, aside / "old")
    return aside


def _sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            with open(Path(folder, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(folder)

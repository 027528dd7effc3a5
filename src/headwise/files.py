"""Atomic writing of files and directories, and I/O errors that name the path.

Every file or directory is written under a temporary name in its parent directory, flushed to the disk, and then
renamed, so that other processes see either the complete old one or the complete new one. A symbolic link stays: what
it leads to is replaced. An error of the operating system becomes a `DataError` on reading and a `TrainingError` on
writing.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import lzma
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from headwise.errors import CheckpointError, ConfigError, DataError, HeadwiseError, LockedError, TrainingError

_DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_TEMPORARY = ".partial-"  # part of the name of every temporary file and directory
_LONGEST = 255 - len(f".{_TEMPORARY}12345678")  # bytes of a file's name that are left for it in a temporary one's
_UMASK = os.umask(0)  # reading it means setting it, so this is done once, before threads are started
os.umask(_UMASK)


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert errors while reading `path` into a `DataError`."""
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


class DamagedArchive(Exception):
    """A zip archive that is damaged, encrypted, or compressed in a way that Python doesn't know; its text is why."""


@contextmanager
def opened_zip(source: Path | BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; raises `DamagedArchive` for what `zipfile` raises, also in the block."""
    try:
        with zipfile.ZipFile(source) as archive:
            yield archive
    except HeadwiseError:
        raise
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DamagedArchive(reason or "it ends early") from None  # an EOFError says nothing


def file_sha256(path: Path) -> str:
    """Return the checksum of a file's content; raises `DataError`."""
    with read_errors(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Convert an `OSError` inside the block into a `TrainingError` that names `path` and the reason."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise TrainingError(f"{path}: can't be written because the disk is full") from error
        reason = error.strerror or str(error)
        raise TrainingError(f"{path}: can't be written ({reason})") from error


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file for binary writing that replaces `path` when the block ends without an exception.

    If the block raises, `path` is left unchanged. Who may read an existing file may read the one that replaces it.
    A pipe or a device, such as /dev/null, is written to as it is.
    Raises `TrainingError` if the disk is full or the directory isn't writable.
    """
    named, path = Path(path), _target(path)
    with disk_errors(named):
        if named.exists() and not (named.is_file() or named.is_dir()):
            with open(named, "wb") as file:
                yield file
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.is_file() else 0o666 & ~_UMASK
        handle, name = tempfile.mkstemp(prefix=_prefix(path), dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to the file at `path` atomically; raises `TrainingError`."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to the file at `path` atomically, in UTF-8; raises `TrainingError`."""
    write_bytes(path, text.encode("utf-8"))


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Yield a temporary empty directory that replaces `path` when the block ends without an exception.

    Everything written below it is flushed to the disk before the rename. If the block raises, the temporary directory
    is removed and `path` is left unchanged. An existing directory at `path` is replaced.

    Raises:
        TrainingError: the disk is full or the parent directory isn't writable.
    """
    named, path = Path(path), _target(path)
    with disk_errors(named):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=_prefix(path), dir=path.parent))
        try:
            yield temporary
            os.chmod(temporary, 0o777 & ~_UMASK)
            _sync_tree(temporary)
            old = _move_aside(path) if path.exists() else None
            os.rename(temporary, path)
            if old is not None:
                shutil.rmtree(old, ignore_errors=True)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(path.parent)


def hold(folder: str | Path) -> AbstractContextManager[None]:
    """Hold an exclusive lock on a directory, which is created if missing; raises as `locked`."""
    folder = Path(folder)
    return locked(folder / ".lock", folder)


@contextmanager
def locked(file: Path, path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created if missing, while the block runs; errors name `path`.

    Raises `LockedError` as `lock` does, and `TrainingError` where the file isn't writable. The operating system
    releases the lock when the process ends, even by a crash.
    """
    with disk_errors(path):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(handle, path, wait=wait)
        yield
    finally:
        os.close(handle)


@contextmanager
def appending(path: str | Path, size: int | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing behind its first `size` bytes, or its end, and `lock` it; raises `TrainingError`."""
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 - closed below; the block's errors aren't all of the disk
    with file:
        lock(file, path)
        with disk_errors(path):
            if size is not None and file.tell() > size:
                file.truncate(size)
        yield file


def lock(file: int | BinaryIO, path: str | Path, *, wait: bool = False) -> None:
    """Lock an open file for this process alone, until it is closed; on Windows there is no lock.

    Raises `LockedError`, which names `path`, if another process holds the lock and the call doesn't `wait` for it, and
    `TrainingError` where the file system has no locks.
    """
    if os.name != "posix":
        return
    import fcntl  # not available on Windows

    with disk_errors(Path(path)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"{path}: is being written by another process") from None


def remove_directory(path: str | Path) -> None:
    """Remove a directory atomically: it is renamed first, so a kill leaves no part of it at `path`.

    A missing directory, or one that can't be removed, is no error.
    """
    path = Path(path)
    if path.is_dir():
        with contextlib.suppress(OSError):
            shutil.rmtree(_move_aside(path), ignore_errors=True)


def remove_partial(path: str | Path) -> None:
    """Remove the temporary files and directories that interrupted writes of `path` left behind.

    A `*` in the name stands for anything; `folder / "*"` matches everything in a directory.
    No other process may be writing `path` at the same time.
    """
    path = _target(path)
    prefix = _prefix(path).replace("[", "[[]").replace("?", "[?]")  # these are part of a file's name
    for temporary in path.parent.glob(f"{prefix}*"):
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def _target(path: str | Path) -> Path:
    """Return what a symbolic link leads to, or another path itself: only beside that can one take its place."""
    return Path(os.path.realpath(path))


def _prefix(path: Path) -> str:
    """Return how the names of temporary files and directories for `path` begin; a long name is cut."""
    name = os.fsencode(path.name)
    kept = path.name if len(name) <= _LONGEST else name[:_LONGEST].decode("utf-8", "ignore")
    return f".{kept}{_TEMPORARY}"


def partial_path(path: Path, name: str) -> Path:
    """Return the path of a temporary file or directory beside `path`, which `remove_partial` removes."""
    return path.with_name(f"{_prefix(path)}{name}")


def sync_directory(path: str | Path) -> None:
    """Flush a directory's entries to the disk, so that a rename inside it survives a power failure."""
    if os.name == "nt":  # Windows can't open a directory; its renames are journaled
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _move_aside(path: Path) -> Path:
    """Move a directory into a new temporary one; returns the temporary directory, for removal."""
    temporary = Path(tempfile.mkdtemp(prefix=_prefix(path), dir=path.parent))
    os.rename(path, temporary / "old")
    return temporary


def _sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            with open(Path(folder, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(folder)


def check_new(path: Path, kind: str = "directory") -> None:
    """Raise `CheckpointError` if something is where a new directory, or another kind of thing, is to be written."""
    if path.exists():
        raise CheckpointError(f"{path}: expected a new {kind}'s name, found something there")


def check_output(path: Path, *inputs: Path | None) -> None:
    """Raise `ConfigError` if an output file is a directory or one of the inputs."""
    if path.is_dir():
        raise ConfigError(f"{path}: expected a file, found a directory")
    if any(file is not None and path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise ConfigError(f"{path}: expected an output file that is not an input file")

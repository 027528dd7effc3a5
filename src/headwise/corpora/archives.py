"""Plain-text files assembled from parts inside tar archives, line by line.

A part may be compressed (`.gz`) or marked up as a WMT test set (`.sgm`: a sentence is the text between `<seg …>` and
`</seg>`; entities are not decoded, as in sacreBLEU).
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from headwise.corpora.catalog import Archive, Corpus, PublicFile
from headwise.corpora.download import BLOCK, Progress, discard, fetch
from headwise.errors import DataError
from headwise.files import read_errors

FOLDER = "archives"  # inside the corpus's folder; removed once all files are assembled
_UNPACK = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}  # by the first two bytes of a file
_RATIO, _FLOOR = 100, 1 << 30  # an archive may unpack to 100 times its size, and to 1 GiB in any case
_DAMAGES = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, struct.error, ValueError, OverflowError)
_MAX_READ = 1 << 26  # bytes of a tar header, or of a test set
_SEGMENT = re.compile(r"<seg.*?>(.*)</seg>.*?")


class Damaged(DataError):
    """A downloaded or copied file is damaged or has the wrong checksum."""


def fetch_archives(
    file: PublicFile, directory: Path, source: Path | None, progress: Progress | None
) -> dict[Archive, Path]:
    """Return the paths of a file's archives, downloaded if missing; raises `DataError`, also for a wrong MD5."""
    return {
        archive: _fetch_archive(archive, directory, source, progress)
        for archive in dict.fromkeys(part.archive for part in file.parts)
    }


def _fetch_archive(archive: Archive, directory: Path, source: Path | None, progress: Progress | None) -> Path:
    if source is not None:
        check_md5(source / archive.name, archive.md5)
        return source / archive.name
    path = directory / FOLDER / archive.name
    if path.exists():
        try:
            check_md5(path, archive.md5)
        except Damaged:
            path.unlink()
        else:
            return path
    part = path.with_name(f"{archive.name}.part")
    fetch(archive.url, part, progress=progress)
    try:
        check_md5(part, archive.md5)
    except Damaged:
        discard(part)
        raise
    return part.rename(path)


def check_md5(path: Path, published: str | None) -> None:
    """Raise `Damaged` where a file's MD5 differs from the published one; None checks nothing."""
    if published is None:
        return
    with read_errors(path), open(path, "rb") as content:
        digest = hashlib.file_digest(content, "md5").hexdigest()
    if digest != published:
        raise Damaged(f"{path}: the checksum is wrong, expected the published MD5 {published}, found {digest}")


def remove_used(corpus: Corpus, directory: Path) -> None:
    """Remove the archives that no missing file of the corpus needs."""
    needed = {part.archive for file in corpus.files if not (directory / file.name).exists() for part in file.parts}
    all_archives = {part.archive for file in corpus.files for part in file.parts}
    for archive in all_archives - needed:
        (directory / FOLDER / archive.name).unlink(missing_ok=True)
    if (directory / FOLDER).is_dir() and not any((directory / FOLDER).iterdir()):
        (directory / FOLDER).rmdir()


def assemble(file: PublicFile, archives: Mapping[Archive, Path]) -> Iterator[bytes]:
    """Yield the text of all parts in blocks; each part ends with a newline.

    Raises `Damaged` naming the archive that can't be read or lacks the part.
    """
    for part in file.parts:
        path = archives[part.archive]
        with damage(path, "the archive is damaged"), open_tar(path) as tar:
            member_info = next((member for member in tar if member.name == part.member), None)
            if member_info is None:
                raise Damaged(f"{path}: expected {part.member} in it, found nothing by that name")
            content = tar.extractfile(member_info) if member_info.isfile() else None
            if content is None:
                raise Damaged(f"{path}: expected a file {part.member} in it, found a folder, link or device")
            with content:
                yield from _newline_terminated(_text(content, part.member))


@contextmanager
def damage(path: Path, sentence: str) -> Iterator[None]:
    """Convert decompression and tar errors to `Damaged`, and errors of the operating system to `DataError`."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGES as error:
        raise Damaged(f"{path}: {sentence} ({' '.join(str(error).split())})") from error
    except OSError as error:
        if error.errno is None:  # raised by gzip or bz2, not by the operating system
            raise Damaged(f"{path}: {sentence} ({error})") from error
        raise DataError(f"{path}: can't be read ({error.strerror or error})") from error


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar file, plain or compressed (gzip, bzip2, xz), to read it member by member without writing to disk.

    An archive that decompresses to more than a hundred times its size (and more than 1 GiB), or has an oversized
    header, raises `tarfile.ReadError`.
    """
    with open(path, "rb") as start:
        unpack = _UNPACK.get(start.read(2))
    most = max(_FLOOR, _RATIO * path.stat().st_size)
    with (
        cast("IO[bytes]", unpack(path) if unpack else open(path, "rb")) as file,
        tarfile.open(fileobj=cast("IO[bytes]", _Bounded(file, most)), mode="r:") as tar,
    ):
        yield tar


class _Bounded(io.RawIOBase):
    """File that refuses to read or skip past `most` bytes, or to read more than `_MAX_READ` at once."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > self._most:
            raise tarfile.ReadError(f"it unpacks to more than {self._most:,} bytes")
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise tarfile.ReadError(f"it holds a header of more than {_MAX_READ:,} bytes")
        if self._file.tell() + size > self._most + tarfile.RECORDSIZE:
            raise tarfile.ReadError(f"it unpacks to more than {self._most:,} bytes")
        return self._file.read(size)


def _text(member: IO[bytes], name: str) -> Iterator[bytes]:
    if name.endswith(".gz"):
        with gzip.open(member) as unpacked:
            while block := unpacked.read(BLOCK):
                yield block
    elif name.endswith(".sgm"):
        text = member.read(_MAX_READ + 1)
        if len(text) > _MAX_READ:
            raise tarfile.ReadError(f"it holds a test set of more than {_MAX_READ:,} bytes")
        for line in text.decode("utf-8").split("\n"):
            if line.startswith("<seg "):
                yield " ".join(_SEGMENT.sub(r"\1", line).split()).encode() + b"\n"
    else:
        while block := member.read(BLOCK):
            yield block


def _newline_terminated(blocks: Iterator[bytes]) -> Iterator[bytes]:
    last = b"\n"
    for block in blocks:
        yield block
        last = block[-1:]
    if last != b"\n":
        yield b"\n"


def missing_archives(file: PublicFile, source: Path) -> Sequence[str]:
    """Return the names of a file's archives that aren't in the folder `source`."""
    return [part.archive.name for part in file.parts if not (source / part.archive.name).is_file()]

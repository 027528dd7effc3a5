"""Files that are published inside tar archives, put together as plain text: one line for every line of their parts.

A part may be packed (`.gz`) or marked up as the test sets of WMT are (`.sgm`: a sentence stands between `<seg …>` and
`</seg>`, entities are left as they are, as sacreBLEU leaves them).
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

FOLDER = "archives"  # in a corpus's folder, until all files made from them are there
_UNPACK = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}  # by a file's first bytes
_RATIO, _FLOOR = (
    100,
    1 << 30,
)  # what a packed archive may unpack to: so many times its size, and at least so much
_MOST_AT_ONCE = 1 << 26  # bytes: of a header, or of a test set
_SEGMENT = re.compile(r"<seg.*?>(.*)</seg>.*?")


class Damaged(DataError):
    """An archive arrived and isn't what it should be."""


def bring(
    file: PublicFile, directory: Path, source: Path | None, progress: Progress | None
) -> dict[Archive, Path]:
    """Find or fetch the archives that a file is made from; raises `DataError` as `fetch` does, and for a wrong MD5."""
    return {
        archive: _bring(archive, directory, source, progress)
        for archive in dict.fromkeys(part.archive for part in file.parts)
    }


def _bring(archive: Archive, directory: Path, source: Path | None, progress: Progress | None) -> Path:
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
    """Raise `Damaged` where a file hasn't the MD5 that its publisher states, if there is one."""
    if published is None:
        return
    with open(path, "rb") as content:
        found = hashlib.file_digest(content, "md5").hexdigest()
    if found != published:
        raise Damaged(f"{path}: the checksum is wrong, expected the published MD5 {published}, found {found}")


def remove_used(corpus: Corpus, directory: Path) -> None:
    """Remove the archives that no missing file of the corpus needs any more."""
    waiting = {
        part.archive for file in corpus.files if not (directory / file.name).exists() for part in file.parts
    }
    everything = {part.archive for file in corpus.files for part in file.parts}
    for archive in everything - waiting:
        (directory / FOLDER / archive.name).unlink(missing_ok=True)
    if (directory / FOLDER).is_dir() and not any((directory / FOLDER).iterdir()):
        (directory / FOLDER).rmdir()


def assemble(file: PublicFile, archives: Mapping[Archive, Path]) -> Iterator[bytes]:
    """Yield the text of all parts in blocks, every part ended by a line feed.

    Raises `Damaged` naming the archive that can't be read or lacks the part.
    """
    for part in file.parts:
        path = archives[part.archive]
        with damage(path, "the archive is damaged"), open_tar(path) as tar:
            found = next((member for member in tar if member.name == part.member), None)
            if found is None:
                raise Damaged(f"{path}: expected {part.member} in it, found nothing by that name")
            content = tar.extractfile(found) if found.isfile() else None
            if content is None:
                raise Damaged(f"{path}: expected a file {part.member} in it, found a folder, link or device")
            with content:
                yield from _ended(_text(content, part.member))


@contextmanager
def damage(path: Path, sentence: str) -> Iterator[None]:
    """Turn all that a damaged packed file makes its readers raise into `Damaged`, and the system's into `DataError`."""
    try:
        yield
    except DataError:
        raise
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        struct.error,
        ValueError,
        OverflowError,
    ) as error:
        raise Damaged(f"{path}: {sentence} ({' '.join(str(error).split())})") from error
    except OSError as error:
        if error.errno is None:  # not the system's: gzip's and bzip2's complaints
            raise Damaged(f"{path}: {sentence} ({error})") from error
        raise DataError(f"{path}: can't be read ({error.strerror or error})") from error


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar file, packed (gzip, bzip2, xz) or not, to be read member by member; nothing goes to the disk.

    An archive that unpacks to more than a hundred times its size (and a gibibyte), or with a header that doesn't fit
    the memory, is `tarfile.ReadError`.
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
    """A file of which no more than `most` bytes are read or skipped, and little at once."""

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
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError(f"it holds a header of more than {_MOST_AT_ONCE:,} bytes")
        if self._file.tell() + size > self._most + tarfile.RECORDSIZE:
            raise tarfile.ReadError(f"it unpacks to more than {self._most:,} bytes")
        return self._file.read(size)


def _text(member: IO[bytes], name: str) -> Iterator[bytes]:
    if name.endswith(".gz"):
        with gzip.open(member) as unpacked:
            while block := unpacked.read(BLOCK):
                yield block
    elif name.endswith(".sgm"):
        text = member.read(_MOST_AT_ONCE + 1)
        if len(text) > _MOST_AT_ONCE:
            raise tarfile.ReadError(f"it holds a test set of more than {_MOST_AT_ONCE:,} bytes")
        for line in text.decode("utf-8").split("\n"):
            if line.startswith("<seg "):
                yield " ".join(_SEGMENT.sub(r"\1", line).split()).encode() + b"\n"
    else:
        while block := member.read(BLOCK):
            yield block


def _ended(blocks: Iterator[bytes]) -> Iterator[bytes]:
    last = b"\n"
    for block in blocks:
        yield block
        last = block[-1:]
    if last != b"\n":
        yield b"\n"


def missing(file: PublicFile, source: Path) -> Sequence[str]:
    """Name the archives of a file that aren't in a folder."""
    return [part.archive.name for part in file.parts if not (source / part.archive.name).is_file()]

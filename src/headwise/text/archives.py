"""Files that are published inside tar archives, put together as plain text: one line for every line of their parts.

A part may be packed (`.gz`) or marked up as the test sets of WMT are (`.sgm`: a sentence stands between `<seg …>` and
`</seg>`, entities are left as they are, as sacreBLEU leaves them).
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from headwise.errors import DataError
from headwise.text.catalog import Archive, Corpus, PublicFile
from headwise.text.download import BLOCK, Progress, discard, fetch

FOLDER = "archives"  # in a corpus's folder, until all files made from them are there
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
        try:
            with tarfile.open(path, "r:*") as tar:
                member = tar.extractfile(part.member)
                if member is None:
                    raise Damaged(f"{path}: expected a file {part.member} in it, found a folder")
                with member:
                    yield from _ended(_text(member, part.member))
        except KeyError:
            raise Damaged(f"{path}: expected {part.member} in it, found nothing by that name") from None
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Damaged(f"{path}: the archive is damaged ({error})") from error
        except OSError as error:
            raise DataError(f"{path}: can't be read ({error.strerror or error})") from error


def _text(member: IO[bytes], name: str) -> Iterator[bytes]:
    if name.endswith(".gz"):
        with gzip.open(member) as unpacked:
            while block := unpacked.read(BLOCK):
                yield block
    elif name.endswith(".sgm"):
        for line in member.read().decode("utf-8").split("\n"):
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

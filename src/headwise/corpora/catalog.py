"""Data classes that describe a corpus or a model: its files, their archives and checksums, and its license."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Archive:
    """A tar file, compressed or not, and its published MD5."""

    url: str
    md5: str | None = None

    @property
    def name(self) -> str:
        """Return the file name."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Part:
    """A file inside an archive: plain, `.gz`, or a test set in `.sgm`."""

    archive: Archive
    member: str


@dataclass(frozen=True)
class PublicFile:
    """One file: its local name, the URL it is published at (plain or `.gz`), and the SHA-256 of the plain file.

    `md5` is the publisher's checksum of the file as published, compressed or not. A file that is published inside
    archives has no `url` but `parts`, which are concatenated in this order; a file of a corpus that is written here
    has neither.
    """

    name: str
    url: str = ""
    sha256: str | None = None
    md5: str | None = None
    parts: tuple[Part, ...] = ()

    @property
    def origin(self) -> str:
        """Return the URL, or the URLs and members of the parts, for the manifest."""
        return self.url or ", ".join(f"{part.archive.url} ({part.member})" for part in self.parts)


@dataclass(frozen=True)
class Corpus:
    """A corpus, or a model: the files of a run directory.

    Attributes:
        pair: for parallel text, the names of the training files, source first.
        write: writes the files into a directory, where they are made here rather than downloaded.
        model: whether it is a model.
    """

    name: str
    description: str
    languages: tuple[str, ...]
    license: str
    homepage: str
    megabytes: int  # approximate size on disk
    files: tuple[PublicFile, ...]
    pair: tuple[str, str] | None = None
    write: Callable[[Path], object] | None = None
    model: bool = False

    @property
    def folder(self) -> Path:
        """Return where the files go unless the user says otherwise."""
        return Path("models" if self.model else "data") / self.name

    @property
    def most_bytes(self) -> int:
        """Return the size limit of each file, downloaded or decompressed: generous, as `megabytes` is rounded."""
        return 2_000_000 * self.megabytes + 1_000_000

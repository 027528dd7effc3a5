"""What a public corpus is: its files, the archives that they are in, and its terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Archive:
    """A tar file, packed or not, and the MD5 that is published of it."""

    url: str
    md5: str | None = None

    @property
    def name(self) -> str:
        """Its file name."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Part:
    """A file inside an archive: plain, `.gz`, or the `.sgm` of a test set."""

    archive: Archive
    member: str


@dataclass(frozen=True)
class PublicFile:
    """One file: its name here (unpacked), where it is published (plain or `.gz`), and its SHA-256.

    `md5` is the checksum that its publisher gives of the file as it is published, packed or not. A file that is
    published inside archives has no `url` but `parts`, which follow each other in it.
    """

    name: str
    url: str = ""
    sha256: str | None = None
    md5: str | None = None
    parts: tuple[Part, ...] = ()

    @property
    def origin(self) -> str:
        """Say where it comes from, for the record."""
        return self.url or ", ".join(f"{part.archive.url} ({part.member})" for part in self.parts)


@dataclass(frozen=True)
class Corpus:
    """A public corpus; `pair` names its training files, source first, where it is parallel text."""

    name: str
    description: str
    languages: tuple[str, ...]
    license: str
    homepage: str
    megabytes: int  # plain text on disk, about
    files: tuple[PublicFile, ...]
    pair: tuple[str, str] | None = None

    @property
    def most_bytes(self) -> int:
        """What none of its files exceeds, downloaded or unpacked: with room, as `megabytes` is rounded."""
        return 2_000_000 * self.megabytes + 1_000_000

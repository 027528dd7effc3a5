"""Download, copy or write the files of a corpus or model into a folder, decompress and verify them, and record them.

Each file ends up plain under its own name, whatever form it is published in. `manifest.json` in the same
folder records the origin and the checksum of each file; a later call verifies a file instead of fetching it again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from headwise.corpora import archives
from headwise.corpora.archives import Damaged
from headwise.corpora.catalog import Corpus, PublicFile
from headwise.corpora.download import BLOCK, Progress, discard, fetch
from headwise.errors import ConfigError, DataError
from headwise.files import atomic_file, file_sha256, locked, write_text
from headwise.parsing import Malformed, json_value

MANIFEST = "manifest.json"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Acquired:
    """One file of a corpus on disk.

    `known` says whether its checksum was known in advance or recorded when the file was first fetched.
    """

    name: str
    path: Path
    bytes: int
    sha256: str
    status: Literal["downloaded", "copied", "written", "present"]
    known: bool

    def to_json(self) -> dict[str, Any]:
        """Return all fields, with the path as a string."""
        return {**self.__dict__, "path": str(self.path)}


def get_corpus(
    corpus: Corpus,
    directory: Path,
    *,
    source: Path | None = None,
    only: Sequence[str] = (),
    force: bool = False,
    progress: Progress | None = None,
) -> list[Acquired]:
    """Download, copy or write the files of a corpus into `directory`, and return them in the corpus's order.

    Files come from their published URLs, or from the folder `source`, plain or with `.gz` appended to the
    name. `only` selects the files that match one of its patterns (`*.en`). An existing file with the right
    checksum is kept; `force` fetches it again.

    Raises:
        DataError: a file can't be downloaded (see `download.fetch`), isn't in `source`, is damaged, doesn't match
            its checksum, or would overwrite a file that isn't the corpus's own.
        ConfigError: no file matches `only`, or there is a `source` for a corpus that is written here.
        TrainingError: the disk is full, the folder isn't writable, or another process downloads the same file.
    """
    if corpus.write is not None:
        if source is not None:
            raise ConfigError(f"--from {source}: expected none, as {corpus.name} is made here, found a folder")
        with TemporaryDirectory() as made:
            corpus.write(Path(made))
            copied = replace(corpus, write=None)
            files = get_corpus(copied, directory, source=Path(made), only=only, force=force, progress=progress)
        return [replace(file, status="written") if file.status == "copied" else file for file in files]
    selected = _select(corpus, only)
    if source is not None:
        _check_source(source, selected, corpus)
    manifest = _read_manifest(directory, corpus)
    acquired = []
    for file in selected:
        made = not file.origin  # here, and perhaps otherwise than by the version that made what is recorded
        recorded = None if made and force else manifest.get(file.name, {}).get("sha256")
        acquired.append(_acquire(file, directory, file.sha256 or recorded, source, force, corpus, progress))
        archives.remove_used(corpus, directory)
    return acquired


def _select(corpus: Corpus, only: Sequence[str]) -> list[PublicFile]:
    selected = [file for file in corpus.files if not only or any(fnmatch(file.name, p) for p in only)]
    if not selected:
        names = ", ".join(file.name for file in corpus.files)
        raise ConfigError(f"--only {' '.join(only)}: no file of {corpus.name} matches; it has {names}")
    return selected


def _check_source(source: Path, selected: Sequence[PublicFile], corpus: Corpus) -> None:
    if not source.is_dir():
        raise DataError(f"--from {source}: expected a folder with the files of {corpus.name}, found none")
    missing = dict.fromkeys(
        name
        for file in selected
        if _local_file(source, file) is None
        for name in (archives.missing_archives(file, source) if file.parts else [file.name])
    )
    if missing:
        raise DataError(
            f"--from {source}: expected {', '.join(missing)} there, plain or .gz, found nothing by that name "
            "(--only PATTERN takes fewer files)"
        )


def _local_file(source: Path, file: PublicFile) -> Path | None:
    candidates = (source / file.name, source / f"{file.name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _acquire(
    file: PublicFile,
    directory: Path,
    expected: str | None,
    source: Path | None,
    force: bool,
    corpus: Corpus,
    progress: Progress | None,
) -> Acquired:
    """Fetch one file into `directory`, unless it is there with the expected checksum."""
    path = directory / file.name
    known = file.sha256 is not None
    record = partial(_record, directory, corpus, file)
    if path.exists() and not force:
        digest, size = file_sha256(path), path.stat().st_size
        if digest != expected:
            detail = f"its SHA-256 is {digest[:12]}…, not {expected[:12]}…" if expected else "no record of it"
            raise DataError(
                f"{path}: another file is already here ({detail}); move it away, or replace it with --force"
            )
        record(digest, size)
        return Acquired(file.name, path, size, digest, "present", known)
    local = None if source is None else _local_file(source, file)
    if local is not None:
        blocks = _plain(local, file, corpus)
        digest, size = _install(blocks, str(local), path, expected, corpus.most_bytes, progress, record)
    elif file.parts:
        archive_paths = archives.fetch_archives(file, directory, source, progress)
        try:
            blocks = archives.assemble(file, archive_paths)
            digest, size = _install(blocks, file.name, path, expected, corpus.most_bytes, progress, record)
        except Damaged:
            if source is None:  # so that the next attempt downloads them again
                for archive in archive_paths.values():
                    archive.unlink(missing_ok=True)
            raise
    else:
        assert source is None, "checked before the first file"
        part = directory / f"{file.name}.part"
        fetch(file.url, part, most=corpus.most_bytes, progress=progress)
        try:
            blocks = _plain(part, file, corpus)
            digest, size = _install(blocks, str(part), path, expected, corpus.most_bytes, None, record)
        except Damaged as error:
            discard(part)
            raise DataError(
                f"{file.url}: {error}; nothing was kept, so another try starts from the first byte"
            ) from error
        part.unlink(missing_ok=True)  # where another process took the same one
    return Acquired(file.name, path, size, digest, "copied" if source else "downloaded", known)


def _install(
    blocks: Iterator[bytes],
    origin: str,
    path: Path,
    expected: str | None,
    most: int,
    progress: Progress | None,
    record: Callable[[str, int], None],
) -> tuple[str, int]:
    """Write the blocks of `origin` to `path` atomically; return their SHA-256 and size, which are recorded before.

    Raises `Damaged` where `origin` is damaged, has more than `most` bytes or another checksum than the `expected` one,
    and `TrainingError` for the disk.
    """
    digest, size = hashlib.sha256(), 0
    with atomic_file(path) as target:
        for block in blocks:
            size += len(block)
            if size > most:
                raise Damaged(f"{origin}: expected at most {most:,} bytes, found that it unpacks to more")
            target.write(block)
            digest.update(block)
            if progress is not None:
                progress(path.name, size, None)
        if expected is not None and digest.hexdigest() != expected:
            raise Damaged(
                f"{origin}: the checksum is wrong, expected SHA-256 {expected}, "
                f"found {digest.hexdigest()} (plain text, {size:,} bytes)"
            )
        record(digest.hexdigest(), size)  # before the file is there, which no later call would take without
    return digest.hexdigest(), size


def _plain(origin: Path, file: PublicFile, corpus: Corpus) -> Iterator[bytes]:
    """Yield a file in blocks, decompressed if it is packed: text by its first bytes, a model's file by its name."""
    with archives.damage(origin, "the .gz file is damaged"):
        with open(origin, "rb") as start:
            packed = start.read(2) == _GZIP
        if corpus.model:
            packed = origin.suffix == ".gz" or file.url.endswith(".gz")
        with gzip.open(origin) if packed else open(origin, "rb") as content:
            while block := content.read(BLOCK):
                yield block


def _record(directory: Path, corpus: Corpus, file: PublicFile, sha256: str, size: int) -> None:
    """Add a file to the manifest, to which other processes may add their files at the same time."""
    with locked(directory / ".lock", directory, wait=True):
        files = _read_manifest(directory, corpus)
        files[file.name] = {
            "sha256": sha256,
            "bytes": size,
            "url": file.origin,
            "checksum": "known in advance" if file.sha256 else "recorded when the file first arrived",
            **({"terms": file.terms} if file.terms else {}),
        }
        record = {"corpus": corpus.name, "license": corpus.license, "files": files}
        write_text(directory / MANIFEST, json.dumps(record, indent=2) + "\n")


def _read_manifest(directory: Path, corpus: Corpus) -> dict[str, dict[str, Any]]:
    """Return the recorded entry of each file; raises `DataError` if the folder belongs to another corpus."""
    path = directory / MANIFEST
    try:
        manifest = json_value(path.read_bytes())
        name = str(manifest["corpus"])
        files = {str(key): dict(entry) for key, entry in manifest["files"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (Malformed, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{path}: expected the record of an earlier `headwise data get`, found something else"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror or error})") from error
    if name != corpus.name:
        raise DataError(f"{directory}: this folder holds {name}; choose another one for {corpus.name} with -o")
    return files

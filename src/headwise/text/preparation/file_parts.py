"""Parts of files, which one task cleans: large plain-text files are cut at line ends, other files are whole."""

from __future__ import annotations

import contextlib
import glob
import importlib
import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.characters import unwritable
from headwise.errors import ConfigError, DataError
from headwise.extras import not_installed
from headwise.files import disk_errors, read_errors
from headwise.text.reading.bilingual import SUFFIXES as BILINGUAL
from headwise.text.reading.compression import compression
from headwise.text.reading.lines import text_lines
from headwise.text.reading.pairs import RawPair, is_two_sided, length_mismatch, pair_files, read_pairs

_BLOCK = 1 << 20  # bytes
# Scheme -> what fsspec needs for it.
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}
_ENDINGS = (
    ".parquet",
    *(f"{name}{packed}" for name in (".jsonl", ".tsv", *BILINGUAL) for packed in ("", ".gz", ".zst")),
)


@dataclass(frozen=True)
class FilePart:
    """Consecutive pairs of a file, or of two."""

    source: str  # path or URL of the file with the source sentences, or with both sides
    target: str | None  # path or URL of the other file; None if there is none
    file: int  # index of the file, or of the two, in the corpus
    first: int = 0  # number of lines before the part
    lines: int = 0  # number of lines; 0: all
    offsets: tuple[int, int] = (0, 0)  # where the part begins in the two files

    @classmethod
    def of(cls, value: dict[str, Any]) -> FilePart:
        """Return the part of a JSON value, which has its fields."""
        return cls(**{**value, "offsets": tuple(value["offsets"])})

    def pairs(self, fields: tuple[str, str], folder: Path) -> Iterator[RawPair]:
        """Yield the pairs; remote files are first copied into `folder`. Raises `DataError` as `read_pairs`."""
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(local_copy(self.source, folder))
            target = None if self.target is None else stack.enter_context(local_copy(self.target, folder))
            if not self.lines:
                yield from read_pairs(pair_files(source, target), *fields)
                return
            assert target is not None
            sides = []
            for path, offset in zip((source, target), self.offsets, strict=True):
                file = stack.enter_context(open(path, "rb"))
                file.seek(offset)
                sides.append(text_lines(path, file))
            numbers = range(self.first + 1, self.first + self.lines + 1)
            yield from (RawPair(*row) for row in zip(*sides, numbers, strict=False))


def find_files(names: Sequence[str]) -> list[str]:
    """Return the files that paths, URLs, patterns with `*` and folders name, in order.

    A folder stands for its files of pairs, in the order of their names, as in a data set of the Hugging Face Hub.
    Raises `DataError` where there are none.
    """
    return list(itertools.chain.from_iterable(map(_files_of, names)))


def cut(sources: Sequence[str], targets: Sequence[str], most: int) -> list[FilePart]:
    """Return the parts of all files; those of plain text have at most so many lines.

    Raises `ConfigError` if there isn't a target for each source with one side, and `DataError` if two files differ in
    their numbers of lines.
    """
    one_sided = [name for name in sources if not is_two_sided(name)]
    if len(one_sided) != len(targets):
        raise ConfigError(
            f"--target: expected one file for each of the {len(one_sided)} plain-text files of --source, "
            f"found {len(targets)}"
        )
    remaining, parts = iter(targets), []
    for index, name in enumerate(sources):
        target = None if is_two_sided(name) else next(remaining)
        whole = FilePart(name, target, index)
        divisible = target is not None and not any(is_remote(p) or compression(p) for p in (name, target))
        parts += _divided(whole, most) if divisible else [whole]
    return parts


def is_remote(name: str) -> bool:
    """Whether a name is a URL."""
    return "://" in name


@contextlib.contextmanager
def local_copy(name: str, folder: Path) -> Iterator[Path]:
    """Yield a local path of a file; a remote one is copied into `folder`, and removed again."""
    if not is_remote(name):
        yield Path(name)
        return
    system, path = _file_system(name)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".remote-") as temporary:
        local = Path(temporary) / Path(path).name
        with (
            _remote_errors(name),
            system.open(path, "rb") as remote,
            disk_errors(local),
            open(local, "wb") as file,
        ):
            shutil.copyfileobj(remote, file, _BLOCK)
        yield local


def stamp_of(name: str) -> dict[str, Any]:
    """Return what tells whether a file has changed: its size and, for a local file, its modification time.

    Raises `DataError` if it can't be read, or if its name can't be written to a manifest.
    """
    if unwritable(name):
        raise DataError(f"{name}: expected a file whose name is UTF-8, found another")
    if not is_remote(name):
        with read_errors(Path(name)):
            status = Path(name).stat()
        return {"path": name, "size": status.st_size, "changed": status.st_mtime_ns}
    system, path = _file_system(name)
    with _remote_errors(name):
        info = system.info(path)
    return {
        "path": name,
        "size": info.get("size"),
        "changed": str(info.get("ETag") or info.get("etag") or ""),
    }


def _files_of(name: str) -> list[str]:
    if is_remote(name):
        system, path = _file_system(name)
        with _remote_errors(name):
            if system.isdir(path):
                found = [each for each in system.find(path) if each.endswith(_ENDINGS)]
            else:
                found = system.glob(path) if "*" in path else [path]
        names = sorted(system.unstrip_protocol(each) for each in found)
    elif Path(name).is_dir():
        names = sorted(str(path) for path in Path(name).rglob("*") if path.name.endswith(_ENDINGS))
    else:
        names = sorted(glob.glob(name, recursive=True)) if "*" in name else [name]
    if not names:
        raise DataError(f"{name}: expected files of sentence pairs, found none")
    return names


def _file_system(name: str) -> tuple[Any, str]:
    scheme = name.partition("://")[0]
    try:
        core: Any = importlib.import_module("fsspec.core")
        return core.url_to_fs(name)
    except ImportError:
        if scheme in _PACKAGES:
            raise not_installed(name, _PACKAGES[scheme]) from None
        raise ConfigError(f"{name}: needs what fsspec imports for {scheme}://, found nothing installed") from None
    except ValueError:
        raise ConfigError(f"{name}: expected a path, or a URL such as s3://, gs:// or hf://") from None


@contextlib.contextmanager
def _remote_errors(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file") from None
    except OSError as error:
        raise DataError(f"{name}: can't be read ({error})") from None


def _divided(whole: FilePart, most: int) -> list[FilePart]:
    assert whole.target is not None
    lines, starts = _line_starts(whole.source, most)
    others, other_starts = _line_starts(whole.target, most)
    if lines != others:
        raise length_mismatch(whole.source, lines, whole.target, others)
    return [
        FilePart(whole.source, whole.target, whole.file, first, min(most, lines - first), offsets)
        for first, offsets in zip(range(0, lines, most), zip(starts, other_starts, strict=True), strict=False)
    ] or [whole]


def _line_starts(name: str, most: int) -> tuple[int, list[int]]:
    """Return the number of lines of a file, and the offset of every `most`-th."""
    count, offset, starts, last = 0, 0, [0], b"\n"
    with read_errors(Path(name)), open(name, "rb") as file:
        while block := file.read(_BLOCK):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            while (wanted := most * len(starts) - count - 1) < len(ends):  # the end before the next start
                starts.append(offset + int(ends[wanted]) + 1)
            count, offset, last = count + len(ends), offset + len(block), block[-1:]
    lines = count + (last != b"\n")
    return lines, starts[: max(1, -(-lines // most))]

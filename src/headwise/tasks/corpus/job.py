"""Translation of files in chunks, which resumes after an interruption: `headwise translate FILE -o OUT`.

After each chunk of lines its output is appended and flushed to the disk, and then the manifest is replaced, which
records the number of complete lines and the checksum of their output. After an interruption, what lies beyond them is
cut off, and the next chunk is translated. A chunk of a compressed file is a gzip member or a Zstandard frame of its
own. The chunks are the same wherever the work was interrupted and wherever they are translated, and so are the files,
byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

from headwise.chunks import chunks
from headwise.decoding.translator import Translator
from headwise.errors import HeadwiseError, TrainingError
from headwise.files import disk_errors
from headwise.tasks.corpus.manifest import FileState, Manifest, digest_of
from headwise.tasks.corpus.progress import TranslationProgress
from headwise.tasks.corpus.runs import Runs

Row = TypeVar("Row")
RowIn = TypeVar("RowIn", contravariant=True)


@dataclass(frozen=True)
class Remark:
    """The number of words of a line, the unknown ones, and sentences about its translation."""

    number: int
    words: int
    unknown: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Translated:
    """The output of a chunk of lines.

    Attributes:
        data: the bytes to append to the file.
        lines: the number of lines of the source.
        counts: how many of them were unusual, by the fields of `FileState`.
        remarks: remarks on the lines.
        long: warnings of lines that were cut.
        failure: why the rows after these can't be translated.
    """

    data: bytes
    lines: int
    counts: Mapping[str, int]
    remarks: Sequence[Remark] = ()
    long: Sequence[str] = ()
    failure: HeadwiseError | None = None


class Work(Protocol[RowIn]):
    """How a chunk is translated; it can be sent to other processes, and gives the same bytes in each."""

    @property
    def runs(self) -> Runs:
        """The runs that translate."""
        ...

    def elsewhere(self) -> Work[RowIn]:
        """Return the same work for processes with another working directory."""
        ...

    def translate(self, translator: Translator, rows: Sequence[RowIn]) -> Translated:
        """Translate the rows of a chunk; raises `DataError` or `ConfigError`."""
        ...


# From chunks to their translations, in order.
Engine = Callable[[Iterable[Sequence[Row]]], Iterator[Translated]]


@dataclass
class Job(Generic[Row]):
    """Files to translate, their manifest, and how they are read.

    Attributes:
        manifest: what is complete.
        path: the manifest's file.
        outputs: the files that are appended to.
        rows: yields the rows of file `index` from row `first` on.
        chunk: rows of a chunk.
        quiet: whether no progress is shown.
        notice: called with every chunk's output once it is complete.
    """

    manifest: Manifest
    path: Path
    outputs: Sequence[Path]
    rows: Callable[[int, int], Iterator[Row]]
    chunk: int
    quiet: bool = False
    notice: Callable[[Translated], None] = field(default=lambda _: None)

    def run(self, engine: Engine[Row]) -> None:
        """Translate the remaining rows.

        Where a row can't be read, those before it are translated and written, and the error is raised; its chunk isn't
        counted as complete.

        Raises a `HeadwiseError`: `TrainingError` for the disk or where another process writes the same file.
        """
        total = sum(self.manifest.totals)
        with TranslationProgress(total, self.manifest.lines, quiet=self.quiet) as progress:
            for index, state in enumerate(self.manifest.files):
                if state.lines < self.manifest.totals[index]:
                    self._run_file(index, state, engine, progress)

    def _run_file(
        self, index: int, state: FileState, engine: Engine[Row], progress: TranslationProgress
    ) -> None:
        path = self.outputs[index]
        digest = digest_of(path, state.bytes)
        rows = _Readable(self.rows(index, state.lines))
        with _appending(path, state.bytes) as file:
            for result in engine(chunks(rows, _always(self.chunk))):
                _append(path, file, result.data)
                if result.failure is not None:
                    raise result.failure
                if rows.failure is not None and result.lines < self.chunk:
                    continue  # the chunk with the row that can't be read
                digest.update(result.data)
                state.lines += result.lines
                state.bytes += len(result.data)
                state.sha256 = digest.hexdigest()
                for name, count in result.counts.items():
                    setattr(state, name, getattr(state, name) + count)
                self.manifest.save(self.path)
                self.notice(result)
                progress.advance(result.lines)
        if rows.failure is not None:
            raise rows.failure
        self.manifest.totals[index] = state.lines


class _Readable(Generic[Row]):
    """The rows before the first error, which is kept as `failure`."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.failure: HeadwiseError | None = None

    def __iter__(self) -> Iterator[Row]:
        try:
            yield from self._rows
        except HeadwiseError as error:
            self.failure = error


def _always(size: int) -> Iterator[int]:
    while True:
        yield size


@contextmanager
def _appending(path: Path, size: int) -> Iterator[BinaryIO]:
    """Open a file for writing behind its first `size` bytes, and lock it; raises `TrainingError`."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 - closed below; an error inside the block isn't one of the disk
    with file:
        if os.name == "posix":
            import fcntl  # not available on Windows

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TrainingError(f"{path}: is being written by another process") from None
        with disk_errors(path):
            file.truncate(size)
        yield file


def _append(path: Path, file: BinaryIO, data: bytes) -> None:
    """Write data and flush it to the disk; raises `TrainingError`."""
    with disk_errors(path):
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

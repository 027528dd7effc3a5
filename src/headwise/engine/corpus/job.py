"""Translation of files in chunks, which resumes after an interruption: `headwise translate FILE -o OUT`.

After each chunk of lines its output is appended and flushed to the disk, and then the manifest is replaced, which
records the number of complete lines and the checksum of their output. After an interruption, what lies beyond them is
cut off, and the next chunk is translated. A chunk of a compressed file is a gzip member or a Zstandard frame of its
own. The chunks are the same wherever the work was interrupted and wherever they are translated, and so are the files,
byte for byte.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headwise.chunks import chunks
from headwise.clock import clock
from headwise.engine.corpus.manifest import FileState, Manifest, digest_of
from headwise.engine.corpus.rows import TextRow
from headwise.engine.corpus.work import TranslatedChunk
from headwise.errors import HeadwiseError
from headwise.files import appending, disk_errors

_INTERVAL = 10.0  # seconds between lines of progress

# From chunks to their translations, in order.
ChunkTranslator = Callable[[Iterable[Sequence[TextRow]]], Iterator[TranslatedChunk]]


@dataclass
class CorpusJob:
    """A text to translate, its manifest, and how it is read.

    Attributes:
        manifest: what is complete.
        path: the manifest's file.
        output: the file that is appended to.
        rows: yields the rows from row `first` on.
        chunk: rows of a chunk.
        quiet: whether no progress is shown.
        notice: called with every chunk's output once it is complete.
    """

    manifest: Manifest
    path: Path
    output: Path
    rows: Callable[[int], Iterator[TextRow]]
    chunk: int
    quiet: bool = False
    notice: Callable[[TranslatedChunk], None] = field(default=lambda _: None)

    def run(self, engine: ChunkTranslator) -> None:
        """Translate the remaining rows.

        Where a row can't be read, those before it are translated and written, and the error is raised; its chunk isn't
        counted as complete.

        Raises a `HeadwiseError`: `TrainingError` for the disk or where another process writes the same file.
        """
        (state,), (total,) = self.manifest.files, self.manifest.totals
        with TranslationProgress(total, state.lines, quiet=self.quiet) as progress:
            if state.lines < total:
                self._translate(state, engine, progress)

    def _translate(self, state: FileState, engine: ChunkTranslator, progress: TranslationProgress) -> None:
        path = self.output
        digest = digest_of(path, state.bytes)
        rows = _Readable(self.rows(state.lines))
        with appending(path, state.bytes) as file:
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
        self.manifest.totals = [state.lines]


class TranslationProgress:
    """Number of translated lines, lines per second, and the remaining time, as a context manager.

    The speed is that since the start of this process; lines that an earlier one translated don't count.
    """

    def __init__(self, total: int, done: int, *, quiet: bool = False) -> None:
        self._total, self._done, self._first = total, done, done
        self._began = self._reported = time.monotonic()
        self._console = Console(stderr=True, quiet=quiet, soft_wrap=True, highlight=False)
        self._bar = Progress(
            TextColumn("line {task.completed}/{task.total}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )

    def __enter__(self) -> TranslationProgress:
        self._task = self._bar.add_task("", total=self._total, completed=self._done)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, lines: int) -> None:
        """Report that so many more lines are translated and saved."""
        self._done += lines
        now = time.monotonic()
        speed = (self._done - self._first) / max(now - self._began, 1e-9)
        left = clock((self._total - self._done) / speed)
        message = f"{speed:,.0f} lines/s  {left} left"
        self._bar.update(self._task, completed=self._done, description=message)
        if self._bar.disable and now - self._reported >= _INTERVAL:
            self._console.print(f"line {self._done:,}/{self._total:,}  {message}", markup=False)
            self._reported = now


class _Readable:
    """The rows before the first error, which is kept as `failure`."""

    def __init__(self, rows: Iterator[TextRow]) -> None:
        self._rows = rows
        self.failure: HeadwiseError | None = None

    def __iter__(self) -> Iterator[TextRow]:
        try:
            yield from self._rows
        except HeadwiseError as error:
            self.failure = error


def _always(size: int) -> Iterator[int]:
    while True:
        yield size


def _append(path: Path, file: BinaryIO, data: bytes) -> None:
    """Write data and flush it to the disk; raises `TrainingError`."""
    with disk_errors(path):
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

"""Translation of a file into a file by `headwise translate`, which resumes after an interruption.

Translations are collected beside the output, in `OUT.lines`, and `OUT.progress`, the manifest, records what of them is
complete: after each chunk its output is appended and flushed to the disk, and then the manifest is replaced. After an
interruption, what lies beyond the complete lines is cut off, and the next chunk is translated. A chunk of a compressed
file is a gzip member or a Zstandard frame of its own. The chunks are the same wherever the work was interrupted and
wherever they are translated, and so are the files, byte for byte.

At the end `OUT.lines` becomes the output; one in Parquet is made of it. Until then, a file of the output's name stays.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headwise.chunks import chunks
from headwise.data.prepared import files_checksum
from headwise.engine.corpus.manifest import Manifest, digest_of
from headwise.engine.corpus.places import ChunkTranslator, find_place
from headwise.engine.corpus.progress import TranslationProgress
from headwise.engine.corpus.rows import TextRow, form_of
from headwise.engine.corpus.work import TextWork, TranslatedChunk
from headwise.engine.sentences import with_prefixes
from headwise.errors import ConfigError, HeadwiseError
from headwise.extras import optional_module
from headwise.files import appending, atomic_file, disk_errors, remove_partial
from headwise.text.reading.compression import compressed, compression
from headwise.text.reading.glossary import Glossary
from headwise.text.reading.lines import read_lines
from headwise.text.reading.parquet import ROWS, ParquetText

_FORMAT = 1


@dataclass(frozen=True)
class FileTranslation:
    """What `headwise translate FILE -o OUT` does.

    Attributes:
        work: how rows are translated and written; `work.output` is what is appended to.
        out: the output.
        chunk: lines of a chunk.
        prefixes: a file with the beginnings of the translations, or None.
        column: the column of the translations in a Parquet file.
        restart: whether translations of an earlier command are removed.
    """

    work: TextWork
    out: Path
    chunk: int
    prefixes: Path | None = None
    column: str = "target"
    restart: bool = False

    @property
    def progress(self) -> Path:
        """The manifest, which exists as long as the output isn't complete."""
        return self.out.with_name(f"{self.out.name}.progress")

    def request(self) -> dict[str, Any]:
        """Return what the output depends on, as JSON values; raises a `HeadwiseError`."""
        work = self.work
        inputs = [work.source.path, *([self.prefixes] if self.prefixes else [])]
        terms = {} if work.glossary is None else {"glossary": _digest(work.glossary)}
        return {
            "format": _FORMAT,
            "chunk": self.chunk,
            "runs": work.runs.digest(),
            "language": work.runs.engine.get("language"),
            "shortlist": bool(work.runs.engine.get("shortlist")),
            "text": files_checksum(inputs),
            "source_field": work.source.field,
            "target_field": work.target_field,
            "column": self.column,
            "on_bad_line": work.source.rule,
            "long_lines": work.long_lines,
            "split": work.split,
            **{f"columns.{name}": value for name, value in dataclasses.asdict(work.columns).items()},
            **terms,
            **work.runs.request(),
        }

    def run(self, say: Callable[[str], None], notice: Callable[[TranslatedChunk], None]) -> Manifest:
        """Translate the lines that the output lacks; returns the finished manifest.

        `notice` is called with every chunk once it is complete. Where a line can't be read, those before it are
        translated and written, and the error is raised; its chunk isn't counted as complete.

        Raises a `HeadwiseError`: `CheckpointError` where the output was begun otherwise, `ConfigError` for what the
        files' formats don't allow, `DataError` for a bad line, if the rule is to stop, `TrainingError` for the disk or
        where another process writes the same file.
        """
        self._check_formats()
        request = self.request()

        with find_place(self.work) as (engine, description, name):
            say(description)
            self._open_place()
            # Locked before anything of an earlier command is read, so that a running one isn't disturbed.
            with appending(self.work.output) as file:
                manifest = self._begun(request) or self._begin(request, name)
                manifest.check_engine(name, self.out)
                if manifest.lines:
                    say(f"{self.out}: {manifest.lines:,} of {manifest.total:,} lines are translated already")
                with disk_errors(self.work.output):
                    file.truncate(manifest.bytes)
                try:
                    self._translate(manifest, engine, notice, file)
                except KeyboardInterrupt:
                    say(f"{self.out}: {manifest.lines:,} lines are saved; the same command goes on from there")
                    raise
        self._finish()
        return manifest

    def _translate(
        self,
        manifest: Manifest,
        engine: ChunkTranslator,
        notice: Callable[[TranslatedChunk], None],
        file: BinaryIO,
    ) -> None:
        output = self.work.output
        digest = digest_of(output, manifest.bytes)
        rows = _Readable(self._rows(manifest.lines))
        with TranslationProgress(manifest.total, manifest.lines) as progress:
            for result in engine(chunks(rows, itertools.repeat(self.chunk))):
                with disk_errors(output):
                    file.write(result.data)
                    file.flush()
                    os.fsync(file.fileno())
                if result.failure is not None:
                    raise result.failure
                if rows.failure is not None and result.lines < self.chunk:
                    continue  # the chunk with the row that can't be read
                digest.update(result.data)
                manifest.lines += result.lines
                manifest.bytes += len(result.data)
                manifest.sha256 = digest.hexdigest()
                for name, count in result.counts.items():
                    setattr(manifest, name, getattr(manifest, name) + count)
                manifest.save(self.progress)
                notice(result)
                progress.advance(result.lines)
        if rows.failure is not None:
            raise rows.failure

    def _rows(self, first: int) -> Iterator[TextRow]:
        prefixes = None if self.prefixes is None else itertools.islice(read_lines(self.prefixes), first, None)
        for _, row, prefix in with_prefixes(self.work.source.rows(first), prefixes, first + 1):
            yield row if prefix is None else dataclasses.replace(row, prefix=prefix)

    def _open_place(self) -> None:
        """Create the folder and the file that is appended to, so that an error names the output."""
        with disk_errors(self.out):
            if not self.out.parent.exists():
                self.out.parent.mkdir(parents=True)
            open(self.work.output, "ab").close()

    def _check_formats(self) -> None:
        """Raise `ConfigError` if a file's format doesn't allow what is asked, or needs a package that is missing."""
        plain = self.work.columns == type(self.work.columns)()
        records = form_of(self.out) == ".parquet" or self.work.target_field is not None
        if records and (not plain or self.work.runs.options().n_best > 1):
            more = "" if form_of(self.out) == ".parquet" else "; --jsonl writes them"
            raise ConfigError(
                f"{self.out}: expected the best translation alone in a field of records, found --n-best, --scores, "
                f"--alignments or --jsonl{more}"
            )
        if compression(self.out) and form_of(self.out) == ".parquet":
            raise ConfigError(f"{self.out}: expected a Parquet file's own compression, found another suffix")
        for path in (self.work.source.path, self.out):
            if compression(path) == ".zst":
                optional_module("zstandard", path)
            if form_of(path) == ".parquet":
                optional_module("pyarrow.parquet", path)

    def _begun(self, request: dict[str, Any]) -> Manifest | None:
        """Return the manifest of an interrupted command; None if there is none.

        Raises `CheckpointError` if it depended on something else. The rule for bad lines may change as long as
        there was none.
        """
        if self.restart or not self.progress.exists():
            remove_partial(self.out)
            return None
        manifest = Manifest.load(self.progress)
        if manifest.request.get("on_bad_line") == "stop":
            manifest.request["on_bad_line"] = request["on_bad_line"]
        if not manifest.too_long:
            manifest.request["long_lines"] = request["long_lines"]
        manifest.check(request, self.out)
        manifest.check_output(self.work.output, self.progress)
        return manifest

    def _begin(self, request: dict[str, Any], engine: str) -> Manifest:
        manifest = Manifest(request=request, engine=engine, total=self.work.source.count())
        manifest.save(self.progress)
        return manifest

    def _finish(self) -> None:
        with disk_errors(self.out):
            if form_of(self.out) == ".parquet":
                _write_parquet(self.work, self.out, self.column)
                self.work.output.unlink()
            else:
                if not self.work.output.stat().st_size:  # no line; a compressed file is never empty
                    self.work.output.write_bytes(compressed(b"", self.work.output))
                os.replace(self.work.output, self.out.resolve())
        self.progress.unlink()


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


def _digest(glossary: Glossary) -> str:
    entries = repr((glossary.entries, glossary.ignore_case))
    return hashlib.sha256(entries.encode()).hexdigest()[:12]


def appended(out: Path) -> Path:
    """Return the file beside the output that translations are appended to, compressed as the output."""
    out = out.resolve()  # the target of a link may be on another disk than the link
    return out.with_name(f"{out.name}.lines{compression(out)}")


def _write_parquet(work: TextWork, out: Path, target: str) -> None:
    """Write the rows of a text and their translations; a Parquet file keeps its other columns."""
    arrow: Any = optional_module("pyarrow", out)
    parquet: Any = optional_module("pyarrow.parquet", out)
    with open(work.output, "rb") as lines, atomic_file(out) as file:
        texts = (line.decode("utf-8").removesuffix("\n") for line in lines)
        writer: Any = None
        for batch in _batches(work, arrow):
            column = arrow.array(list(itertools.islice(texts, batch.num_rows)), arrow.string())
            if (index := batch.schema.get_field_index(target)) >= 0:
                batch = batch.set_column(index, target, column)
            else:
                batch = batch.append_column(target, column)
            writer = writer or parquet.ParquetWriter(file, batch.schema, compression="zstd")
            writer.write_batch(batch)
        writer.close()


def _batches(work: TextWork, arrow: Any) -> Iterator[Any]:
    """Yield the rows of a text, at least one batch, which is empty where there are none."""
    if work.source.form == ".parquet":
        yield from ParquetText(work.source.path).batches()
        return
    rows = (row.text for row in work.source.rows())
    block = list(itertools.islice(rows, ROWS))
    while True:
        yield arrow.RecordBatch.from_arrays([arrow.array(block, arrow.string())], [work.source.field])
        if not (block := list(itertools.islice(rows, ROWS))):
            return

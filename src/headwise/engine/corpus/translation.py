"""Translation of a file into a file by `headwise translate`, which resumes after an interruption.

Translations are collected beside the output, in `OUT.lines`, and `OUT.progress` records what of them is complete. At
the end `OUT.lines` becomes the output; one in Parquet is made of it. Until then, a file of the output's name stays.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.data.prepared import files_checksum, stamp
from headwise.engine.corpus.job import CorpusJob
from headwise.engine.corpus.manifest import FileState, Manifest
from headwise.engine.corpus.places import find_place
from headwise.engine.corpus.rows import TextRow, form_of
from headwise.engine.corpus.work import TextWork, TranslatedChunk
from headwise.errors import ConfigError, DataError
from headwise.extras import optional_module
from headwise.files import atomic_file, disk_errors, remove_partial
from headwise.text.reading.compression import compressed, compression
from headwise.text.reading.glossary import Glossary
from headwise.text.reading.lines import one_line, open_text, text_lines
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
            "text": files_checksum({"inputs": [stamp(path) for path in inputs]}),
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

    def run(
        self, say: Callable[[str], None], notice: Callable[[TranslatedChunk], None], *, quiet: bool = False
    ) -> Manifest:
        """Translate the lines that the output lacks; returns the finished manifest.

        Raises a `HeadwiseError`: `CheckpointError` where the output was begun otherwise, `ConfigError` for what the
        files' formats don't allow, `DataError` for a bad line, if the rule is to stop.
        """
        self._check_formats()
        request = self.request()
        manifest = self._begun(request)

        with find_place(self.work) as (engine, description, name):
            say(description)
            state = manifest or self._begin(request, name)
            state.check_engine(name, self.out)
            if state.lines:
                say(f"{self.out}: {state.lines:,} of {state.totals[0]:,} lines are translated already")
            job = CorpusJob(state, self.progress, self.work.output, self._rows, self.chunk, quiet, notice)
            try:
                job.run(engine)
            except KeyboardInterrupt:
                say(f"{self.out}: {state.lines:,} lines are saved; the same command goes on from there")
                raise
        self._finish()
        return state

    def _rows(self, first: int) -> Iterator[TextRow]:
        rows = self.work.source.rows(first)
        if self.prefixes is None:
            yield from rows
            return
        with open_text(self.prefixes) as file:
            lines = itertools.islice(text_lines(self.prefixes, file), first, None)
            for row in rows:
                prefix = next(lines, None)
                if prefix is None:
                    raise DataError(f"prefixes: expected one for each line, found none for line {row.number}")
                try:
                    yield dataclasses.replace(row, prefix=one_line(prefix.decode("utf-8")))
                except UnicodeDecodeError:
                    raise DataError(
                        f"{self.prefixes}: line {row.number}: expected UTF-8 text, found other bytes"
                    ) from None
            if next(lines, None) is not None:
                raise DataError("prefixes: expected one for each line, found more")

    def _check_formats(self) -> None:
        """Raise `ConfigError` if a file's format doesn't allow what is asked, or needs a package that is missing."""
        plain = self.work.columns == type(self.work.columns)()
        records = form_of(self.out) == ".parquet" or self.work.target_field is not None
        if records and (not plain or self.work.options.n_best > 1):
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
        if not manifest.count("too_long"):
            manifest.request["long_lines"] = request["long_lines"]
        manifest.check(request, self.out)
        if (
            not self.work.output.exists() and self.out.exists()
        ):  # begun by a version that wrote into the output
            os.replace(self.out.resolve(), self.work.output)
        manifest.check_files([self.work.output], self.progress)
        return manifest

    def _begin(self, request: dict[str, Any], engine: str) -> Manifest:
        manifest = Manifest(
            request=request,
            teachers=[str(run) for run in self.work.runs.runs],
            sources=[str(self.work.source.path)],
            totals=[self.work.source.count()],
            engine=engine,
            files=[FileState()],
        )
        with disk_errors(self.out):
            if not self.out.parent.exists():
                self.out.parent.mkdir(parents=True)
            open(self.work.output, "ab").close()  # so that an error names it
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


def _digest(glossary: Glossary) -> str:
    entries = repr((glossary.entries, glossary.ignore_case))
    return hashlib.sha256(entries.encode()).hexdigest()[:12]


def appended(out: Path) -> Path:
    """Return the file beside the output that translations are appended to, compressed as the output."""
    out = out.resolve()  # the target of a link may be on another disk than the link
    return out.with_name(f"{out.name}.lines{compression(out)}")


def warn_of_long_lines(result: TranslatedChunk) -> None:
    """Warn of the lines of a chunk that were cut."""
    for warning in result.long:
        warnings.warn(warning, stacklevel=2)


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

"""Text in Parquet files, read by row groups: a file may be larger than memory. It needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import DataError
from headwise.extras import optional_module
from headwise.files import read_errors

ROWS = 1 << 14  # read or written at a time


class ParquetText:
    """A Parquet file with text in some of its columns."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises `ConfigError` if pyarrow is missing, and `DataError` if it isn't a Parquet file."""
        self.path = path
        self._parquet = optional_module("pyarrow.parquet", path)
        self._arrow = optional_module("pyarrow", path)
        optional_module("pyarrow.compute", path)
        with read_errors(path), self._damages():
            self._file = self._parquet.ParquetFile(path)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._file.metadata.num_rows

    def tuples(self, columns: list[str], first: int = 0) -> Iterator[tuple[str | None, ...]]:
        """Yield the texts of columns from row `first` on, row by row; None for a missing one.

        A name with dots is a field of a structure, `translation.en`, unless a column has it. Bytes that aren't UTF-8,
        which nothing keeps a writer from, are surrogates, as in file names (PEP 383). Raises `DataError` if there is no
        such column of text, or several, or the file is damaged.
        """
        names = self._file.schema_arrow.names
        roots = list(dict.fromkeys(name if name in names else name.partition(".")[0] for name in columns))
        if missing := [root for root in roots if root not in names]:
            raise DataError(f"{self.path}: expected a column {missing[0]!r}, found {', '.join(names[:20]) or 'none'}")
        if repeated := [root for root in roots if names.count(root) > 1]:
            raise DataError(f"{self.path}: expected one column {repeated[0]!r}, found {names.count(repeated[0])}")
        groups, skipped = self._groups_from(first)
        for batch in self._batches(groups, roots):
            rest = batch.slice(min(skipped, batch.num_rows))
            skipped -= batch.num_rows - rest.num_rows
            yield from zip(*(self._column(rest, name) for name in columns), strict=True)

    def batches(self) -> Iterator[Any]:
        """Yield the record batches of all columns, an empty one of no rows; raises `DataError` if it is damaged."""
        if not self.rows:
            yield self._arrow.RecordBatch.from_pylist([], schema=self._file.schema_arrow)
        yield from self._batches(list(range(self._file.num_row_groups)), None)

    def _groups_from(self, first: int) -> tuple[list[int], int]:
        """Return the row groups from that of row `first` on, and the rows to skip in them."""
        group = 0
        while group < self._file.num_row_groups and first >= (rows := self._file.metadata.row_group(group).num_rows):
            group, first = group + 1, first - rows
        return list(range(group, self._file.num_row_groups)), first

    def _batches(self, groups: list[int], columns: list[str] | None) -> Iterator[Any]:
        with self._damages():
            yield from self._file.iter_batches(ROWS, row_groups=groups, columns=columns)

    def _column(self, batch: Any, name: str) -> list[str | None]:
        root, *path = [name] if name in batch.schema.names else name.split(".")
        column = batch.column(root)
        types = self._arrow.types
        for part in path:
            if not types.is_struct(column.type) or column.type.get_field_index(part) < 0:
                raise DataError(f"{self.path}: expected a field {name!r}, found {column.type}")
            column = self._arrow.compute.struct_field(column, part)
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if str(column.type) not in ("string", "large_string", "string_view"):
            raise DataError(f"{self.path}: expected text in column {name!r}, found {column.type}")
        try:
            return column.to_pylist()
        except UnicodeDecodeError:
            cells = column.cast(self._arrow.large_binary()).to_pylist()
            return [None if each is None else each.decode("utf-8", "surrogateescape") for each in cells]

    @contextmanager
    def _damages(self) -> Iterator[None]:
        """Convert errors of pyarrow into a `DataError`."""
        try:
            yield
        except self._arrow.ArrowException as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"{self.path}: expected a whole Parquet file, found a damaged one ({reason})") from None

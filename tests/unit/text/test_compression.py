"""Compressed files, and packages of extras that are missing."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from headwise.engine.corpus.rows import TextFile
from headwise.errors import ConfigError
from headwise.text.preparation.file_parts import find_files
from headwise.text.preparation.tasks import ray_cluster
from headwise.text.reading.compression import compressed, open_binary, suffix


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_parts_are_read_joined(packed: str, tmp_path: Path) -> None:
    if packed == ".zst":
        pytest.importorskip("zstandard", reason="zstandard isn't installed (the extra zstd)")
    path = tmp_path / f"text.en{packed}"
    parts = [b"one\ntw", b"", b"o\n" * 100_000]
    path.write_bytes(b"".join(compressed(part, path) for part in parts))
    with open_binary(path) as file:
        assert file.read() == b"".join(parts)
    assert compressed(parts[0], path) == compressed(parts[0], path)
    assert suffix(path) == ".en"
    if packed == ".gz":
        assert gzip.decompress(path.read_bytes()) == b"".join(parts)


def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zstandard", "pyarrow", "pyarrow.parquet", "ray", "s3fs", "gcsfs"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.zst").write_bytes(b"")
    (tmp_path / "a.parquet").write_bytes(b"")
    for extra, use in {
        "zstd": lambda: list(TextFile(tmp_path / "a.zst").rows()),
        "parquet": lambda: list(TextFile(tmp_path / "a.parquet").rows()),
        "ray": lambda: ray_cluster().__enter__(),
        "s3": lambda: find_files(["s3://bucket/text.tsv"]),
        "gs": lambda: find_files(["gs://bucket/text.tsv"]),
    }.items():
        with pytest.raises(ConfigError, match=rf"run `pip install 'headwise\[{extra}\]'`$"):
            use()
    with pytest.raises(ConfigError, match="expected a path, or a URL such as s3://"):
        find_files(["nowhere://bucket/text.tsv"])

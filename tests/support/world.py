"""Slices of the built-in world's text, as tests use it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise.corpora.built_in import read_built_in, write_built_in
from headwise.text.reading.conllu import Tree, read_trees


def world_trees(file: str, count: int) -> list[Tree]:
    """Return the first trees of a CoNLL-U file of the built-in world, such as `dev.en.conllu`."""
    with TemporaryDirectory() as folder:
        (path,) = write_built_in("miniature", Path(folder), file)
        return read_trees(path)[:count]


def write_world(folder: Path, counts: dict[str, int], suffixes: Sequence[str] = ("en", "de")) -> None:
    """Write the first pairs of parts, such as `train`, with a suffix for source and target."""
    for part, count in counts.items():
        for side, suffix in zip(("en", "de"), suffixes, strict=True):
            lines = _lines(f"{part}.{side}")[:count]
            (folder / f"{part}.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@cache
def _lines(file: str) -> list[str]:
    return read_built_in("miniature", file)

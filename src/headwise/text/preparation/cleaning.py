"""Cleaning of parts of files into tables of UTF-8 rows, with the keys by which duplicates are found."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.config import CleaningConfig
from headwise.data.ragged import RaggedWriter, save_array
from headwise.errors import ConfigError, DataError
from headwise.extras import optional_module
from headwise.text.preparation.file_parts import FilePart
from headwise.text.preparation.tables import near_keys
from headwise.text.reading.lines import one_line
from headwise.text.reading.pairs import CleaningReport, Pair, RawPair, clean_pairs, pair_hash

_BLOCK = 1 << 13  # pairs whose keys are computed together

# From source and target to whether the pair is kept, or to another pair.
Filter = Callable[[str, str], "bool | tuple[str, str]"]


@dataclass(frozen=True)
class Rules:
    """Rules for pairs, each with a count of the pairs that it removes.

    Attributes:
        cleaning: the rules of `data.cleaning`; duplicates are found later.
        min_words: fewest words of a side.
        max_word_ratio: most words of the longer side for each of the shorter; 0: no limit.
        languages: codes of the languages of both sides, as py3langid identifies them; None: not identified.
        filters: functions, as `module:function`.
    """

    cleaning: CleaningConfig
    min_words: int = 1
    max_word_ratio: float = 0.0
    languages: tuple[str, str] | None = None
    filters: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the rules as a JSON value."""
        return {**vars(self), "cleaning": self.cleaning.model_dump(), "filters": list(self.filters)}

    @classmethod
    def of(cls, value: dict[str, Any]) -> Rules:
        """Return the rules of a JSON value."""
        languages = None if value["languages"] is None else tuple(value["languages"])
        return cls(**{**value, "cleaning": CleaningConfig(**value["cleaning"]), "languages": languages})

    def load(self) -> list[tuple[str, Callable[[str, str], tuple[str, str] | None]]]:
        """Return the rules beyond `cleaning` as names and functions; raises `ConfigError`."""
        loaded: list[tuple[str, Callable[[str, str], tuple[str, str] | None]]] = []
        if self.min_words > 1 or self.max_word_ratio:
            loaded.append(("words", self._words))
        if self.languages is not None:
            optional_module("py3langid", "--identify-languages")
            from headwise.text.reading import detection

            detection.preload()
            loaded.append(("language", lambda s, t: self._language(detection.likeliest, s, t)))
        loaded += [(name, _checked(name, load_filter(name))) for name in self.filters]
        return loaded

    def _words(self, source: str, target: str) -> tuple[str, str] | None:
        short, long = sorted((len(source.split()), len(target.split())))
        fits = short >= self.min_words and (not self.max_word_ratio or long <= self.max_word_ratio * short)
        return (source, target) if fits else None

    def _language(self, find: Callable[[str], str], source: str, target: str) -> tuple[str, str] | None:
        assert self.languages is not None
        return (source, target) if (find(source), find(target)) == self.languages else None


def load_filter(name: str) -> Filter:
    """Import `module:function`, also from the working directory; raises `ConfigError`."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigError(f"--filter: expected module:function, found {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # the user named a module of his own
    try:
        found = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise ConfigError(f"--filter {name}: can't be imported ({error})") from None
    except AttributeError:
        raise ConfigError(f"--filter {name}: expected a function {function}, found none") from None
    return found


def clean(task: dict[str, Any]) -> dict[str, Any]:
    """Clean parts of files into tables of at most `task["most"]` rows, or one table where that is 0.

    Returns the names and numbers of rows of the tables, and for each part the counts of a `CleaningReport`. Of each
    table there are `NAME.source` and `NAME.target` (UTF-8 rows), `NAME.lines`, `NAME.files`, `NAME.hashes` (of the
    pairs), and for every key `NAME.key0`, … (its values, sorted) and `NAME.key0.rows`: first the hash of the pair, then
    those of near duplicates. Raises a `HeadwiseError`.
    """
    folder, rules, most = Path(task["folder"]), Rules.of(task["rules"]), task["most"]
    parts, reports = [FilePart.of(part) for part in task["parts"]], [CleaningReport() for _ in task["parts"]]
    found = (
        (pair, part.file)
        for part, report in zip(parts, reports, strict=True)
        for pair in _cleaned(part.pairs(tuple(task["fields"]), folder), rules, report)
    )
    tables = []
    for number, first in enumerate(found):
        name = f"{task['name']}-{number:04}" if most else task["name"]
        block = itertools.chain([first], itertools.islice(found, most - 1 if most else None))
        rows = _write(folder / name, block, near=task["near"], seed=task["seed"])
        tables.append({"name": name, "rows": rows})
    counts = [{name: value for name, value in vars(r).items() if name != "limits"} for r in reports]
    return {"tables": tables, "counts": counts}


def _cleaned(pairs: Iterator[RawPair], rules: Rules, report: CleaningReport) -> Iterator[Pair]:
    loaded = rules.load()
    for pair in clean_pairs(pairs, rules.cleaning, report):
        sides: tuple[str, str] | None = pair.source, pair.target
        for name, rule in loaded:
            sides = rule(*sides)
            if sides is None:
                report.rules[name] += 1
                report.kept -= 1
                break
        else:
            assert sides is not None
            yield Pair(*sides, pair.line) if loaded else pair


def _checked(name: str, function: Filter) -> Callable[[str, str], tuple[str, str] | None]:
    def rule(source: str, target: str) -> tuple[str, str] | None:
        try:
            result = function(source, target)
        except OSError as error:  # which isn't that of a full disk
            raise DataError(f"--filter {name}: {error}") from error
        if result is True or result is False or result is None:
            return (source, target) if result else None
        if not isinstance(result, tuple) or len(result) != 2 or not all(isinstance(s, str) for s in result):
            raise DataError(
                f"--filter {name}: expected True, False or a pair of texts from it, found {result!r:.60}"
            )
        changed = one_line(result[0]).strip(), one_line(result[1]).strip()
        return changed if all(changed) else None

    return rule


def _write(path: Path, pairs: Iterator[tuple[Pair, int]], *, near: bool, seed: int) -> int:
    """Write pairs, each with the number of its file, as a table; returns the number of rows."""
    keys, lines, files = [], [], []
    with (
        RaggedWriter(path.with_name(f"{path.name}.source"), np.uint8) as sources,
        RaggedWriter(path.with_name(f"{path.name}.target"), np.uint8) as targets,
    ):
        while block := list(itertools.islice(pairs, _BLOCK)):
            sources.append_texts([pair.source for pair, _ in block])
            targets.append_texts([pair.target for pair, _ in block])
            lines.append(np.array([pair.line for pair, _ in block], np.int64))
            files.append(np.array([file for _, file in block], np.uint16))
            hashes = np.array([pair_hash(pair.source, pair.target) for pair, _ in block], np.uint64)
            texts = [f"{pair.source}\n{pair.target}" for pair, _ in block] if near else []
            keys.append(np.column_stack([hashes, near_keys(texts, seed)]) if near else hashes[:, None])
    columns = np.concatenate(keys)
    for name, values in (("lines", lines), ("files", files), ("hashes", [columns[:, 0]])):
        save_array(path.with_name(f"{path.name}.{name}"), np.concatenate(values))
    for number, column in enumerate(columns.T):
        order = np.argsort(column, kind="stable")
        save_array(path.with_name(f"{path.name}.key{number}"), column[order])
        save_array(path.with_name(f"{path.name}.key{number}.rows"), order.astype(np.uint32))
    return len(columns)

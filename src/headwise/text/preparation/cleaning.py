"""Cleaning of parts of files into tables of UTF-8 rows, with the keys by which duplicates are found."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headwise.config import CleaningConfig
from headwise.config.keys import recorded
from headwise.config.languages import base_code
from headwise.data.ragged import RaggedWriter, beside, save_array
from headwise.errors import ConfigError, DataError
from headwise.extras import optional_module
from headwise.text.preparation.file_parts import FilePart, local_copy
from headwise.text.preparation.tables import near_keys
from headwise.text.reading.lines import one_line, read_lines
from headwise.text.reading.pairs import (
    CleaningReport,
    Pair,
    PairFiles,
    RawPair,
    clean_pairs,
    is_two_sided,
    pair_hash,
    read_pairs,
)

_BLOCK = 1 << 13  # pairs whose keys are computed together
_NAMES = 3  # most words of a text that may be its own translation

# From source and target to whether the pair is kept, or to another pair.
Filter = Callable[[str, str], "bool | tuple[str, str]"]
Rule = tuple[str, Filter]  # with its name


@dataclass(frozen=True)
class Rules:
    """Rules for pairs, each with a count of the pairs that it removes."""

    cleaning: CleaningConfig  # the rules of `data.cleaning`; duplicates are found later
    languages: tuple[str, str] | None = None  # codes, which py3langid identifies; None: not identified
    filters: Sequence[str] = ()  # functions, as `module:function`

    def to_json(self) -> dict[str, Any]:
        """Return the rules as a JSON value."""
        return {**vars(self), "cleaning": recorded(self.cleaning), "filters": list(self.filters)}

    @classmethod
    def of(cls, value: dict[str, Any]) -> Rules:
        """Return the rules of a JSON value."""
        languages = None if value["languages"] is None else tuple(value["languages"])
        return cls(**{**value, "cleaning": CleaningConfig(**value["cleaning"]), "languages": languages})

    def load(self, fields: tuple[str, str]) -> list[Rule]:
        """Return the rules beyond those of `clean_pairs`; `fields` has the names of the sides in held-out files.

        Raises `ConfigError`, and `DataError` for held-out files.
        """
        loaded: list[Rule] = []
        if self.cleaning.drop_untranslated:
            loaded.append(("untranslated", _is_translated))
        if self.cleaning.held_out:
            sentences = held_out_sentences(self.cleaning.held_out, fields)
            loaded.append(("held out", lambda s, t: sentences.isdisjoint((words_of(s), words_of(t)))))
        if self.languages is not None:
            optional_module("py3langid", "--identify-languages")
            from headwise.text.reading import detection

            detection.preload()
            wanted, find = [*map(base_code, self.languages)], detection.likeliest
            loaded.append(("language", lambda s, t: [base_code(find(s)), base_code(find(t))] == wanted))
        loaded += [(name, _checked(name, load_filter(name))) for name in self.filters]
        return loaded


def words_of(text: str) -> str:
    """Return the words of a text in lower case, separated by spaces: equal for sentences that differ in no word."""
    return _between_words().sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


@cache
def _between_words() -> re.Pattern[str]:
    """Return a pattern of what stands between words, to which vowel signs belong (Hindi, Thai), though not to `\\w`."""
    signs = (c for c in map(chr, range(0x300, 0xFE00)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(rf"[^\w{''.join(signs)}]+")


def held_out_sentences(files: Sequence[str], fields: tuple[str, str]) -> frozenset[str]:
    """Return `words_of` all sentences of files, each plain text or with both sides, which `fields` names.

    Raises `DataError` for a file that can't be read, and `ConfigError` for fields that a file can't have.
    """
    found: set[str] = set()
    for name in files:
        with local_copy(name, Path(tempfile.gettempdir())) as path:
            if is_two_sided(path):
                pairs = read_pairs(PairFiles(path, None), *fields)
                found.update(words_of(side.decode(errors="replace")) for pair in pairs for side in pair[:2])
            else:
                found.update(map(words_of, read_lines(path)))
    return frozenset(found - {""})


def _is_translated(source: str, target: str) -> bool:
    words = words_of(source)
    return words.count(" ") < _NAMES or words != words_of(target)


def load_filter(name: str) -> Filter:
    """Import `module:function`, also from the working directory; raises `ConfigError`."""
    module, _, function = name.partition(":")
    if not module or module.startswith(".") or not function:
        raise ConfigError(f"--filter: expected module:function, found {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # the user named a module of his own
    try:
        found: Filter = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise ConfigError(f"--filter {name}: can't be imported ({error})") from None
    except AttributeError:
        raise ConfigError(f"--filter {name}: expected a function {function}, found none") from None
    if not callable(found):
        raise ConfigError(f"--filter {name}: expected a function {function}, found {type(found).__name__}")
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
    fields: tuple[str, str] = tuple(task["fields"])
    loaded = rules.load(fields)
    found = (
        (pair, part.file)
        for part, report in zip(parts, reports, strict=True)
        for pair in cleaned_pairs(part.pairs(fields, folder), rules.cleaning, loaded, report)
    )
    tables = []
    for number, first in enumerate(found):
        name = f"{task['name']}-{number:04}" if most else task["name"]
        block = itertools.chain([first], itertools.islice(found, most - 1 if most else None))
        rows = _write(folder / name, block, near=task["near"], seed=task["seed"])
        tables.append({"name": name, "rows": rows})
    counts = [{name: value for name, value in vars(r).items() if name != "limits"} for r in reports]
    return {"tables": tables, "counts": counts}


def cleaned_pairs(
    pairs: Iterator[RawPair], cleaning: CleaningConfig, rules: Sequence[Rule], report: CleaningReport
) -> Iterator[Pair]:
    """Yield the pairs that `clean_pairs` and every further rule keep; count the others in `report`."""
    for pair in clean_pairs(pairs, cleaning, report):
        for name, rule in rules:
            kept = rule(pair.source, pair.target)
            if not kept:
                report.rules[name] += 1
                report.kept -= 1
                break
            if kept is not True:
                pair = Pair(*kept, pair.line)
        else:
            yield pair


def _checked(name: str, function: Filter) -> Filter:
    def rule(source: str, target: str) -> bool | tuple[str, str]:
        try:
            result = function(source, target)
        except OSError as error:  # which isn't that of a full disk
            raise DataError(f"--filter {name}: {error}") from error
        if result is True or result is False or result is None:
            return bool(result)
        if not isinstance(result, tuple) or len(result) != 2 or not all(isinstance(s, str) for s in result):
            raise DataError(f"--filter {name}: expected True, False or a pair of texts from it, found {result!r:.60}")
        changed = one_line(result[0]).strip(), one_line(result[1]).strip()
        return changed if all(changed) else False

    return rule


def _write(path: Path, pairs: Iterator[tuple[Pair, int]], *, near: bool, seed: int) -> int:
    """Write pairs, each with the number of its file, as a table; returns the number of rows."""
    keys, lines, files = [], [], []
    with (
        RaggedWriter(beside(path, "source"), np.uint8) as sources,
        RaggedWriter(beside(path, "target"), np.uint8) as targets,
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
        save_array(beside(path, name), np.concatenate(values))
    for number, column in enumerate(columns.T):
        order = np.argsort(column, kind="stable")
        save_array(beside(path, f"key{number}"), column[order])
        save_array(beside(path, f"key{number}.rows"), order.astype(np.uint32))
    return len(columns)

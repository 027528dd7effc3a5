"""The stages of a preparation of sentence pairs, for a small corpus in one process as for a large one in many.

Each stage is a list of tasks (`headwise.text.preparation.tasks`): clean parts of the text into tables; find the
duplicates of each range of keys; select the rows that are left of each table; store each table as a shard of ids.
Between them, this process splits off the development set and learns the subwords. Rows are chosen by hashes of their
text, so the result depends on the text and the options only, whatever runs the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import AugmentConfig, CleaningConfig, SubwordConfig
from headwise.data.ragged import Ragged, RaggedWriter, beside, map_array, save_array
from headwise.errors import DataError
from headwise.files import write_text
from headwise.text.augmentation import augment
from headwise.text.preparation.cleaning import Rules
from headwise.text.preparation.file_parts import FilePart
from headwise.text.preparation.stores import SHARD, SIDES, TRAIN_TEXT
from headwise.text.preparation.tables import (
    BANDS,
    HELD_OUT,
    mixed_hashes,
    of_files,
    training_rows,
    write_rows,
)
from headwise.text.preparation.tasks import Task
from headwise.text.reading.pairs import CleaningReport, check_cleaning
from headwise.text.tokens.extension import extend
from headwise.text.tokens.source_words import FILE as WORDS
from headwise.text.tokens.source_words import usual_words
from headwise.text.tokens.subwords import Subwords

_RANGE = 1 << 21  # keys that are compared at a time
_DEV_SHARE = 20  # at most one pair in 20 is split off for development
_BLOCK = 1 << 16  # rows
_DEV_TEXT = "dev-text"  # table
_LENIENT = Rules(CleaningConfig(max_words=1 << 30, max_ratio=1e9))  # development text may have any length
# Runs the tasks of a stage, whose title it gets; returns their results.
Run = Callable[[str, list[Task]], list[Task]]


@dataclass(frozen=True)
class Preparation:
    """A corpus, and how it is prepared."""

    # Paths, URLs, patterns and folders of files with the source sentences, or with both sides; and of the other side,
    # as many files as there are plain-text files in `sources`.
    sources: Sequence[str]
    targets: Sequence[str] = ()
    fields: tuple[str, str] = ("source", "target")  # of records with source and target
    rules: Rules = field(default_factory=lambda: Rules(CleaningConfig()))  # for pairs
    near: bool = False  # whether near duplicates are removed, too; `rules.cleaning` says it of exact ones
    subwords: SubwordConfig = field(default_factory=SubwordConfig)  # how they are learned
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of pairs that subwords are learned from
    given: Subwords | None = None  # used instead
    add_subwords: int = 0  # most that are added to the given ones
    sample: int = 1_000_000  # pairs, about, that subwords are learned from
    development: tuple[str, str | None] | None = None  # the file, or the two, of the development set
    dev_pairs: int = 1000  # size of the set that is split off otherwise, at most 1 pair in 20
    new_files: int = 0  # files that this set and further subwords come from, as others are replayed; 0: all
    longest: int = 512  # most subwords of a side, with the end symbol
    shard_pairs: int = 1 << 18  # most pairs of a shard; 0: there is one, in memory order
    seed: int = 1  # of all choices
    engine: str = "processes"  # or `ray`, of a corpus in shards
    workers: int = 0  # processes; 0: one per core


class Stages:
    """The stages of one preparation, in order.

    Attributes:
        report: sentences on what was read, removed, split off and learned.
        subwords: the subwords, once they are learned.
    """

    def __init__(
        self, job: Preparation, out: Path, work: Path, run: Run, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """Prepare into the folder `out`; `work` is for what is only needed meanwhile."""
        self._job, self._out, self._work, self._run, self._say = job, out, work, run, say
        self.report: list[str] = []
        self.subwords: Subwords

    def prepare(self, parts: Sequence[FilePart]) -> tuple[list[Task], int]:
        """Run all stages; returns the results of the shards, and the size of the development set.

        Raises `ConfigError` for a vocabulary that doesn't fit the text, and `DataError` for text that can't be used.
        """
        job = self._job
        groups = [[part] for part in parts] if job.shard_pairs else [list(parts)]
        name = "{:05}" if job.shard_pairs else TRAIN_TEXT
        title = "reading and cleaning the text"
        tables, read = self._clean(title, groups, name, job.rules, job.shard_pairs)
        selected, different = self._select(tables, read)
        if job.development is None:
            self._split(tables, selected, different, [part.source for part in parts])
        else:
            self._read_development(tables, *job.development)
        rows = sum(len(training_rows(self._work / table, job.seed)[0]) for table in tables)
        self.subwords = self._learn(tables, rows) if job.given is None else self._given(tables, job.given)
        self._list_words(tables, rows)
        shards = self._store(tables, rows)
        return shards, self._store_development()

    def _clean(
        self, title: str, groups: Sequence[Sequence[FilePart]], name: str, rules: Rules, most: int
    ) -> tuple[list[str], CleaningReport]:
        """Clean groups of parts, one in each task; returns the names of the tables, and what was removed.

        A table has at most `most` rows; with 0, there is one for each group.
        """
        job = self._job
        tasks = [
            {
                "stage": "clean",
                "name": name.format(number),
                "folder": str(self._work),
                "parts": [asdict(part) for part in group],
                "fields": list(job.fields),
                "rules": rules.to_json(),
                "near": job.near,
                "most": most,
                "seed": job.seed,
            }
            for number, group in enumerate(groups)
        ]
        results = self._run(title, tasks)
        total = CleaningReport(limits=rules.cleaning)
        for group, result in zip(groups, results, strict=True):
            for part, counts in zip(group, result["counts"], strict=True):
                counts = {**counts, "rules": Counter(counts["rules"])}
                report = CleaningReport(**counts, limits=rules.cleaning)
                if len(groups) == 1:  # with the whole of each file
                    check_cleaning(report, *filter(None, (part.source, part.target)))
                total.add(report)
        check_cleaning(total, f"{groups[0][0].source} …")
        return [table["name"] for result in results for table in result["tables"]], total

    def _select(self, tables: list[str], read: CleaningReport) -> tuple[list[Task], int]:
        """Select the rows of each table that aren't duplicates, and report what was read and removed.

        Returns the results, and the number of different pairs from which a development set may be split off.
        """
        job, folder = self._job, str(self._work)
        drop = read.limits.drop_duplicates or job.near
        # Tables may have pairs in common, of which a development set has each once.
        across = not drop and len(tables) > 1 and job.development is None and job.dev_pairs > 0
        keys = (1 if drop or across else 0) + (BANDS if job.near else 0)
        count = max(1, -(-read.kept // _RANGE))
        bounds = [(1 << 64) * number // count for number in range(count + 1)]
        finding = [
            {
                "stage": "duplicates",
                "name": f"{key}-{number:04}",
                "folder": folder,
                "key": key,
                "range": [bounds[number], bounds[number + 1] - 1],
                "tables": tables,
            }
            for key in range(keys)
            for number in range(count)
        ]
        repeated = sum(result["duplicates"] for result in self._run("finding duplicates", finding))
        dropped = [["near" if task["key"] else "exact", f"duplicates-{task['name']}"] for task in finding if drop]
        selecting = [
            {
                "stage": "select",
                "name": f"{number:05}",
                "folder": folder,
                "table": table,
                "number": number,
                "duplicates": dropped,
                "seed": job.seed,
                "dev_pairs": job.dev_pairs,
                "new_files": job.new_files,
            }
            for number, table in enumerate(tables)
        ]
        results = self._run("selecting pairs", selecting)
        different = read.kept - repeated if across else sum(result["different"] for result in results)
        read.duplicates, read.near = (sum(r[name] for r in results) for name in ("duplicates", "near"))
        read.kept -= read.duplicates + read.near
        self.report.append(str(read))
        return results, different

    # ---------------------------------------------------------------------------------------------- development set

    def _split(self, tables: list[str], selected: list[Task], different: int, names: Sequence[str]) -> None:
        """Split off the pairs with the smallest hashes under the seed, so that duplicates stay together."""
        job = self._job
        if job.dev_pairs and different < 2:
            raise DataError(
                f"expected at least 2 different pairs, one of them for the development set, found {different}"
            )
        count = max(1, min(job.dev_pairs, different // _DEV_SHARE)) if job.dev_pairs else 0
        smallest = sorted({value for result in selected for value in result["smallest"]})[:count]
        held_out = np.array(smallest, np.uint64)
        save_array(self._work / HELD_OUT, held_out)
        seen = held_out[:0]
        equal, chosen = 0, [(table, np.zeros(0, np.int64)) for table in tables[:1]]
        for table in tables if count else []:
            path = self._work / table
            rows = map_array(beside(path, "kept"), np.int64)
            found = rows[np.isin(mixed_hashes(path, rows, job.seed), held_out)]
            equal += len(found)
            new = of_files(path, found, job.new_files)
            hashes = mixed_hashes(path, new, job.seed)
            first = np.sort(np.unique(hashes, return_index=True)[1])
            first = first[~np.isin(hashes[first], seen)]
            seen = np.concatenate([seen, hashes[first]])
            chosen.append((table, new[first]))
        self._gather(chosen)
        if not count:
            self.report.append("no development set: data.dev_pairs is 0")
            return
        origin = " and ".join(names[: job.new_files]) or "the training text"
        sentence = f"development set: {count:,} pairs split off {origin} (seed {job.seed})"
        if count < job.dev_pairs:
            option = "--dev-pairs" if job.shard_pairs else "data.dev_pairs"
            sentence += f", 1 in {_DEV_SHARE}, rather than the {job.dev_pairs:,} that {option} asks for"
        if equal > count:
            sentence += f"; {equal - count:,} equal to one of them left out of training"
        self.report.append(sentence)

    def _gather(self, chosen: list[tuple[str, NDArray[np.int64]]]) -> None:
        """Write rows of tables as the table of the development set."""
        for side in SIDES:
            with RaggedWriter(self._work / f"{_DEV_TEXT}.{side}", np.uint8) as writer:
                for table, rows in chosen:
                    writer.append_texts(Ragged(self._work / f"{table}.{side}", np.uint8).texts(rows))
        for name, kind in (("lines", np.int64), ("files", np.uint16)):
            values = [map_array(self._work / f"{table}.{name}", kind)[rows] for table, rows in chosen]
            save_array(self._work / f"{_DEV_TEXT}.{name}", np.concatenate(values))

    def _read_development(self, tables: list[str], source: str, target: str | None) -> None:
        """Read the files of the development set, of which nothing but empty and damaged pairs is removed."""
        self._clean("reading the development set", [[FilePart(source, target, 0)]], _DEV_TEXT, _LENIENT, 0)
        save_array(self._work / HELD_OUT, np.zeros(0, np.uint64))
        hashes = map_array(self._work / f"{_DEV_TEXT}.hashes", np.uint64)
        origin = " and ".join(filter(None, (source, target)))
        self.report.append(f"development set: {len(hashes):,} pairs from {origin}")
        overlap = 0
        for table in tables:
            rows = map_array(self._work / f"{table}.kept", np.int64)
            own = map_array(self._work / f"{table}.hashes", np.uint64)[rows]
            overlap += int(np.isin(own, hashes).sum())
        if overlap:
            self.report.append(f"{overlap:,} training pairs also stand in the development set")

    # ----------------------------------------------------------------------------------------------------- subwords

    def _learn(self, tables: list[str], rows: int) -> Subwords:
        """Learn subwords from the rows with the smallest hashes, about `sample` of them; after a kill, read them."""
        job, done = self._job, self._work / "subwords.json"
        if done.exists():
            return Subwords.load(self._out)
        some = f" from about {job.sample:,} pairs" if job.sample < rows else ""
        self._say(f"learning {job.subwords.size:,} subwords{some}")
        subwords = Subwords.train(*self._samples(tables, rows), job.subwords, self._out)
        write_text(done, "{}")
        return subwords

    def _given(self, tables: list[str], subwords: Subwords) -> Subwords:
        """Return the given subwords with those added that the new text needs, if any are to be."""
        job = self._job
        if job.add_subwords:
            self._say(f"learning at most {job.add_subwords:,} further subwords")
            paths = [self._work / table for table in tables]
            rows = sum(len(of_files(path, training_rows(path, job.seed)[0], job.new_files)) for path in paths)
            old = subwords
            subwords = extend(old, *self._samples(tables, rows, job.new_files), job.add_subwords)
            sizes = [(old.source_size, subwords.source_size), (old.target_size, subwords.target_size)]
            sizes = sizes[: 2 - subwords.joint]
            added = " and ".join(f"{after - before:,}" for before, after in sizes)
            all_of_them = " and ".join(f"{after:,}" for _, after in sizes)
            self.report.append(f"subwords: {added} added that the new text needs, {all_of_them} in all")
        subwords.save(self._out)
        return subwords

    def _list_words(self, tables: list[str], rows: int) -> None:
        """List the words of the source sentences, of about `sample` of them; after a kill, the list is there."""
        if not (self._out / WORDS).exists():
            source = self._sampled(tables, 0, self._bound(rows), 0, AugmentConfig())
            write_text(self._out / WORDS, "".join(f"{word}\n" for word in usual_words(source)))

    def _bound(self, rows: int) -> int:
        """Return the highest hash of a sample, of which all smaller ones are in it, too."""
        return min((1 << 64) - 1, (1 << 64) * self._job.sample // max(1, rows))

    def _samples(self, tables: list[str], rows: int, files: int = 0) -> tuple[Iterator[str], Iterator[str]]:
        """Return the source and target sentences of about `sample` of that many rows."""
        bound, augmentation = self._bound(rows), self._job.augment
        source, target = (self._sampled(tables, side, bound, files, augmentation) for side in (0, 1))
        return source, target

    def _sampled(
        self, tables: list[str], side: int, bound: int, files: int, augmentation: AugmentConfig
    ) -> Iterator[str]:
        job = self._job
        for number, table in enumerate(tables):
            path = self._work / table
            rows = of_files(path, training_rows(path, job.seed)[0], files)
            rows = rows[mixed_hashes(path, rows, job.seed + 1) <= np.uint64(bound)]
            sides = [Ragged(beside(path, name), np.uint8) for name in SIDES]
            for start in range(0, len(rows), _BLOCK):
                block = rows[start : start + _BLOCK]
                if augmentation.active:  # both sides together, for each of them
                    random = np.random.default_rng([job.seed, number, start])
                    pairs = augment(sides[0].texts(block), sides[1].texts(block), augmentation, random)
                    yield from pairs[side]
                else:
                    yield from sides[side].texts(block)

    # ------------------------------------------------------------------------------------------------------- stores

    def _store(self, tables: list[str], rows: int) -> list[Task]:
        """Store each table as a shard of ids."""
        job = self._job
        tasks = [
            {
                "stage": "store",
                "name": f"{number:05}",
                "folder": str(self._work),
                "out": str(self._out),
                "table": table,
                "shard": SHARD.format(number) if job.shard_pairs else "train",
                "seed": job.seed,
                "longest": job.longest,
                "workers": 1 if job.shard_pairs else job.workers,
            }
            for number, table in enumerate(tables)
        ]
        results = self._run(f"encoding {rows:,} pairs", tasks)
        shards = f" in {len(results):,} shards" if job.shard_pairs else ""
        totals = {name: sum(r[name] for r in results) for name in ("rows", "too_long", "unknown")}
        if not totals["rows"]:
            raise DataError(f"every training pair is longer than {job.longest} subwords")
        self._report_encoded(f"training: {totals['rows']:,} pairs encoded{shards}", totals)
        return results

    def _store_development(self) -> int:
        """Store the development set and its text; returns its size."""
        table, out = self._work / _DEV_TEXT, self._out / "dev"
        rows = np.arange(len(map_array(beside(table, "lines"), np.int64)))
        result = write_rows(table, rows, out, self._job.longest)
        written = map_array(self._work / "dev.rows", np.int64)
        for side in SIDES:
            texts = Ragged(beside(table, side), np.uint8).texts(written)
            with RaggedWriter(beside(out, f"{side}.text"), np.uint8) as writer:
                writer.append_texts(texts)
        self._report_encoded(f"development: {result['rows']:,} pairs encoded", result)
        return result["rows"]

    def _report_encoded(self, sentence: str, result: dict[str, Any]) -> None:
        if result["too_long"]:
            sentence += f", {result['too_long']:,} over {self._job.longest} subwords left out"
        if result["unknown"]:
            sentence += f", {result['unknown']:,} unknown subwords in them"
        self.report.append(sentence)

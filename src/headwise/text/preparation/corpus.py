"""Preparation of a corpus that is larger than memory, in tasks that run in many processes and resume after a kill.

The stages, each a list of tasks (`headwise.text.preparation.tasks`): clean each piece of the text; find the
duplicates of each range of keys; select the rows that are left of each table; store each table as a shard of ids.
Between them, this process chooses the development set and learns the subwords from a sample. Rows are chosen by hashes
of their text, so the result depends on the text and the options only: any number of processes on any engine writes the
same bytes.

What the stages write is in `OUT/work`, which is removed at the end; then `OUT/manifest.json` makes the folder complete.
Memory doesn't grow with the text, except for a few numbers for each table of `shard_pairs` pairs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwise.config import CleaningConfig, SubwordConfig
from headwise.data.hashing import mix_hashes
from headwise.data.prepared import MANIFEST
from headwise.data.ragged import MOST_FILES, Ragged, RaggedWriter, map_array, save_array
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.files import disk_errors, hold, write_text
from headwise.parsing import read_json
from headwise.text.preparation.cleaning import Rules, load_filter
from headwise.text.preparation.pieces import cut, find_files, stamp_of
from headwise.text.preparation.tables import BANDS, write_rows
from headwise.text.preparation.tasks import ENGINES, Task, ray_cluster, run_tasks
from headwise.text.tokens.subwords import Subwords

WORK = "work"
_FORMAT = 1
_RANGE = 1 << 21  # keys that are compared at a time
_DEV_SHARE = 20  # at most one pair in 20 is held out for development
_BLOCK = 1 << 13
_INTERVAL = 5.0  # seconds between messages


@dataclass(frozen=True)
class Preparation:
    """A corpus, and how it is prepared.

    Attributes:
        sources: paths, URLs, patterns and folders of files with the source sentences, or with both sides.
        targets: the same for the other side, as many files as there are plain-text files in `sources`.
        fields: fields of records with source and target.
        rules: rules for pairs.
        near: whether near duplicates are removed, too; exact ones are if `rules.cleaning.drop_duplicates`.
        subwords: how subwords are learned.
        subwords_from: a run or prepared folder whose subwords are used instead.
        sample: pairs, about, that subwords are learned from.
        dev_pairs: size of the development set that is held out, at most 1 pair in 20.
        longest: most subwords of a side, with the end symbol.
        shard_pairs: most pairs of a shard.
        seed: seed of all choices.
        engine: `processes` or `ray`.
        workers: number of processes; 0: one per core.
    """

    sources: Sequence[str]
    targets: Sequence[str] = ()
    fields: tuple[str, str] = ("source", "target")
    rules: Rules = field(default_factory=lambda: Rules(CleaningConfig()))
    near: bool = False
    subwords: SubwordConfig = field(default_factory=SubwordConfig)
    subwords_from: Path | None = None
    sample: int = 1_000_000
    dev_pairs: int = 1000
    longest: int = 512
    shard_pairs: int = 1 << 18
    seed: int = 1
    engine: str = "processes"
    workers: int = 0


@dataclass(frozen=True)
class _Table:
    name: str
    rows: int
    file: int


class _Stages:
    """The stages of one preparation, in order."""

    def __init__(self, job: Preparation, out: Path, say: Callable[[str], None]) -> None:
        self._job, self._out, self._say = job, out, say
        self._work = out / WORK
        self._report: list[str] = []

    def run(self, sources: Sequence[str], targets: Sequence[str], request: dict[str, Any]) -> list[str]:
        tables, total, kept = self._clean(sources, targets)
        selected = self._select(tables, total, kept)
        held_out = self._held_out(selected)
        subwords = self._subwords(tables, sum(result["rows"] for result in selected))
        development = self._development(tables, subwords, held_out)
        shards = self._store(tables, held_out)
        manifest = {
            "request": request,
            "checksum": _checksum_of(shards, subwords),
            "subwords": subwords.digest(),
            "names": {"train": list(sources), "dev": list(sources)},
            "shards": [{"rows": shard["rows"], "files": shard["files"]} for shard in shards],
            "dev_pairs": development,
            "report": self._report,
        }
        write_text(self._out / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))
        shutil.rmtree(self._work)
        return self._report

    def _clean(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[_Table], int, int]:
        job = self._job
        tasks = [
            {
                "stage": "clean",
                "name": f"{number:05}",
                "folder": str(self._work),
                "piece": piece.to_json(),
                "fields": list(job.fields),
                "rules": job.rules.to_json(),
                "near": job.near,
                "most": job.shard_pairs,
                "seed": job.seed,
            }
            for number, piece in enumerate(cut(sources, targets, job.shard_pairs))
        ]
        results = self._run("cleaning", tasks)
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result["counts"])
        tables = [_Table(**table) for result in results for table in result["tables"]]
        kept = sum(table.rows for table in tables)
        removed = {
            "with an empty side": counts["empty"],
            f"over {job.rules.cleaning.max_words} words": counts["too_long"],
            f"with a length ratio over {job.rules.cleaning.max_ratio:g}": counts["ratio"],
            "not UTF-8": counts["not_utf8"],
            **{name: counts[name] for name in ("words", "language", *job.rules.filters) if name in counts},
        }
        listed = ", ".join(f"{count:,} {name}" for name, count in removed.items())
        self._report.append(f"{counts['total']:,} pairs read, {kept:,} kept; removed: {listed}")
        if counts["not_utf8"] * 2 > counts["total"]:
            raise DataError(
                f"{sources[0]} …: expected UTF-8 text, found {counts['not_utf8']:,} of {counts['total']:,} pairs that "
                "aren't; convert the text first (for instance with iconv)"
            )
        if not kept:
            raise DataError(f"{sources[0]} …: cleaning left nothing to learn from: {self._report[-1]}")
        return tables, counts["total"], kept

    def _select(self, tables: list[_Table], total: int, kept: int) -> list[Task]:
        job = self._job
        exact = job.rules.cleaning.drop_duplicates or job.near
        keys = (1 if exact else 0) + (BANDS if job.near else 0)
        count = max(1, -(-kept // _RANGE))
        bounds = [(1 << 64) * number // count for number in range(count + 1)]
        finding = [
            {
                "stage": "duplicates",
                "name": f"{key}-{number:04}",
                "folder": str(self._work),
                "key": key,
                "range": [bounds[number], bounds[number + 1] - 1],
                "tables": [table.name for table in tables],
            }
            for key in range(keys)
            for number in range(count)
        ]
        self._run("finding duplicates", finding)
        duplicates = [["near" if task["key"] else "exact", f"duplicates-{task['name']}"] for task in finding]
        selecting = [
            {
                "stage": "select",
                "name": f"{number:05}",
                "folder": str(self._work),
                "table": table.name,
                "number": number,
                "duplicates": duplicates,
                "seed": job.seed,
                "dev_pairs": job.dev_pairs,
            }
            for number, table in enumerate(tables)
        ]
        results = self._run("selecting", selecting)
        if exact:
            near = f", {sum(r['near'] for r in results):,} near duplicates" if job.near else ""
            found = sum(r["duplicates"] for r in results)
            self._report.append(f"removed: {found:,} duplicates{near}")
        return results

    def _held_out(self, selected: list[Task]) -> int | None:
        """Return the largest hash of the development set; None without one."""
        rows = sum(result["rows"] for result in selected)
        distinct = sorted({value for result in selected for value in result["smallest"]})
        count = min(self._job.dev_pairs, len(distinct), rows // _DEV_SHARE)
        return distinct[count - 1] if count else None

    def _subwords(self, tables: list[_Table], rows: int) -> Subwords:
        """Load the given subwords, or learn them from the rows with the smallest hashes, about `sample` of them."""
        job = self._job
        if job.subwords_from is not None:
            subwords = Subwords.load(job.subwords_from)
            subwords.save(self._out)
            return subwords
        done = self._work / "subwords.json"
        if done.exists():
            return Subwords.load(self._out)
        bound = min((1 << 64) - 1, (1 << 64) * job.sample // max(1, rows))
        self._say(f"learning {job.subwords.size:,} subwords from about {min(job.sample, rows):,} pairs")
        sides = [self._sampled(tables, side, bound) for side in ("source", "target")]
        subwords = Subwords.train(sides[0], sides[1], job.subwords, self._out)
        write_text(done, "{}")
        return subwords

    def _sampled(self, tables: list[_Table], side: str, bound: int) -> Iterator[str]:
        for table in tables:
            rows = map_array(self._work / f"{table.name}.kept", np.int64)
            hashes = map_array(self._work / f"{table.name}.hashes", np.uint64)[rows]
            chosen = rows[mix_hashes(hashes, self._job.seed + 1) <= np.uint64(bound)]
            texts = Ragged(self._work / f"{table.name}.{side}", np.uint8)
            for start in range(0, len(chosen), _BLOCK):
                yield from texts.texts(chosen[start : start + _BLOCK])

    def _development(self, tables: list[_Table], subwords: Subwords, held_out: int | None) -> int:
        """Write the development set: the first row of each of the smallest hashes; returns its size."""
        seen: set[int] = set()
        texts: dict[str, list[str]] = {"source": [], "target": []}
        lines, files = [], []
        for table in tables if held_out is not None else []:
            rows = map_array(self._work / f"{table.name}.kept", np.int64)
            hashes = mix_hashes(
                map_array(self._work / f"{table.name}.hashes", np.uint64)[rows], self._job.seed
            )
            assert held_out is not None
            chosen = []
            for place in np.flatnonzero(hashes <= np.uint64(held_out)).tolist():
                if int(hashes[place]) not in seen:
                    seen.add(int(hashes[place]))
                    chosen.append(int(rows[place]))
            for side, sentences in texts.items():
                sentences += Ragged(self._work / f"{table.name}.{side}", np.uint8).texts(chosen)
            lines.append(map_array(self._work / f"{table.name}.lines", np.int64)[chosen])
            files += [table.file] * len(chosen)
        with disk_errors(self._out):
            for side, sentences in texts.items():
                with RaggedWriter(self._work / f"dev.{side}", np.uint8) as writer:
                    writer.append_texts(sentences)
            save_array(self._work / "dev.lines", np.concatenate([np.zeros(0, np.int64), *lines]))
            written, _ = write_rows(
                self._work / "dev", np.arange(len(files)), subwords, self._out / "dev", self._job.longest
            )
            save_array(self._out / "dev.files", np.array(files, np.uint16)[written])
            for side, sentences in texts.items():
                with RaggedWriter(self._out / f"dev.{side}.text", np.uint8) as writer:
                    writer.append_texts([sentences[row] for row in written.tolist()])
        self._report.append(f"development set: {len(written):,} pairs held out (seed {self._job.seed})")
        return len(written)

    def _store(self, tables: list[_Table], held_out: int | None) -> list[Task]:
        job = self._job
        tasks = [
            {
                "stage": "store",
                "name": f"{number:05}",
                "folder": str(self._work),
                "out": str(self._out),
                "table": table.name,
                "file": table.file,
                "shard": number,
                "held_out": held_out,
                "seed": job.seed,
                "longest": job.longest,
            }
            for number, table in enumerate(tables)
        ]
        results = self._run("encoding", tasks)
        counts = {name: sum(r[name] for r in results) for name in ("rows", "too_long", "unknown")}
        self._report.append(
            f"training: {counts['rows']:,} pairs in {len(results):,} shards, {counts['too_long']:,} over {job.longest} "
            f"subwords left out, {counts['unknown']:,} unknown subwords"
        )
        if not counts["rows"]:
            raise DataError(f"every training pair is longer than {job.longest} subwords")
        return results

    def _run(self, title: str, tasks: list[Task]) -> list[Task]:
        started, first = time.monotonic(), [-1]
        said = [started]

        def advance(done: int, total: int) -> None:
            if first[0] < 0:
                first[0] = done
                if done and done < total:
                    self._say(f"{title}: {done:,} of {total:,} tasks are done already")
                return
            now = time.monotonic()
            left = (now - started) / (done - first[0]) * (total - done)
            if done == total or now - said[0] >= _INTERVAL:
                said[0] = now
                self._say(f"{title}: {done:,}/{total:,}  {left:,.0f} s left")

        return run_tasks(
            tasks, self._work, engine=self._job.engine, workers=self._job.workers, advance=advance
        )


def prepare_corpus(
    job: Preparation, out: Path, *, restart: bool = False, say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Prepare a corpus in the folder `out`, or what is missing there; returns the report.

    Raises:
        CheckpointError: the folder was begun with other text or options.
        ConfigError: an option can't be used, or needs a package that is missing.
        DataError: a file is missing or damaged, or cleaning leaves nothing.
        TrainingError: the folder can't be written, or another process does.
    """
    if job.engine not in ENGINES:
        raise ConfigError(f"--engine: expected one of {', '.join(ENGINES)}, found {job.engine!r}")
    job.rules.load()
    for name in job.rules.filters:
        load_filter(name)
    sources, targets = find_files(job.sources), find_files(job.targets)
    if len(sources) > MOST_FILES:
        raise ConfigError(f"--source: expected at most {MOST_FILES:,} files, found {len(sources):,}")
    request = _request(job, sources, targets)
    out = out.resolve()
    with hold(out):
        if restart:
            _empty(out)
        begun = out / WORK / "request.json"
        for path, read in ((out / MANIFEST, lambda tree: tree["request"]), (begun, lambda tree: tree)):
            if path.exists() and read(read_json(path)) != request:
                raise CheckpointError(
                    f"{out}: was begun with other text or options; use another folder, or --restart to begin anew"
                )
        if (out / MANIFEST).exists():
            shutil.rmtree(out / WORK, ignore_errors=True)
            return read_json(out / MANIFEST)["report"]
        if not begun.exists() and any(path.name != ".lock" for path in out.iterdir()):
            raise DataError(f"{out}: expected a new folder or one with a prepared corpus, found other files")
        write_text(begun, json.dumps(request))
        with ray_cluster() if job.engine == "ray" else contextlib.nullcontext():  # one for all stages
            return _Stages(job, out, say).run(sources, targets, request)


def _request(job: Preparation, sources: list[str], targets: list[str]) -> dict[str, Any]:
    given = None if job.subwords_from is None else Subwords.load(job.subwords_from).digest()
    request = {
        "format": _FORMAT,
        "inputs": [stamp_of(name) for name in (*sources, *targets)],
        "fields": list(job.fields),
        "rules": job.rules.to_json(),
        "near": job.near,
        "subword_config": job.subwords.model_dump(exclude={"copy_from"}),
        "given_subwords": given,
        "sample": job.sample,
        "dev_pairs": job.dev_pairs,
        "max_length": job.longest,
        "shard_pairs": job.shard_pairs,
        "seed": job.seed,
    }
    return json.loads(json.dumps(request))


def _empty(out: Path) -> None:
    """Remove a corpus or the beginning of one; raises `DataError` if the folder holds something else."""
    if not (out / MANIFEST).exists() and not (out / WORK).exists():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise DataError(f"{out}: expected a folder with a prepared corpus, found other files")
        return
    (out / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(out / WORK, ignore_errors=True)
    for pattern in ("shard-*", "dev.*", "spm.*"):
        for path in out.glob(pattern):
            path.unlink()


def _checksum_of(shards: list[Task], subwords: Subwords) -> str:
    digest = hashlib.sha256(subwords.digest().encode())
    for shard in shards:
        digest.update(json.dumps(shard["files"], sort_keys=True).encode())
    return digest.hexdigest()[:12]

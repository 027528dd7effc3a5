"""Preparation of a corpus that is larger than memory, in tasks that run in many processes and resume after a kill.

Any number of processes on any engine writes the same bytes (`headwise.text.preparation.stages`). What the stages write
is in `OUT/work`, which is removed at the end; then `OUT/manifest.json` makes the folder complete. Memory doesn't grow
with the text, except for a few numbers for each table of `shard_pairs` pairs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headwise.data.prepared import MANIFEST, read_manifest
from headwise.data.ragged import MOST_FILES
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.files import disk_errors, hold, write_text
from headwise.parsing import read_json
from headwise.text.preparation.file_parts import cut, find_files, stamp_of
from headwise.text.preparation.stages import Preparation, Stages
from headwise.text.preparation.tasks import ENGINES, Task, open_engine, run_tasks
from headwise.text.tokens.pair_vocabulary import FILE as VOCABULARY
from headwise.text.tokens.source_words import FILE as WORDS
from headwise.text.tokens.subwords import Subwords

WORK, _BEGUN = "work", "request.json"
_WRITTEN = ("shard-*", "dev.*", "spm.*", "bpe.*", VOCABULARY, WORDS)  # besides the manifest
_FORMAT = 1
_STAGES = 2  # format of what is in `WORK`


def prepare_corpus(
    job: Preparation, out: Path, *, restart: bool = False, say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Prepare a corpus in the folder `out`, or what is missing there; returns the report.

    Raises:
        CheckpointError: the folder was begun with other text or options, or has another manifest.
        ConfigError: an option can't be used, or needs a package that is missing.
        DataError: a file is missing or damaged, or cleaning leaves nothing.
        TrainingError: the folder can't be written, or another process does.
    """
    if job.engine not in ENGINES:
        raise ConfigError(f"--engine: expected one of {', '.join(ENGINES)}, found {job.engine!r}")
    job.rules.load(job.fields)
    sources, targets = find_files(job.sources), find_files(job.targets)
    if len(sources) > MOST_FILES:
        raise ConfigError(f"--source: expected at most {MOST_FILES:,} files, found {len(sources):,}")
    request = _request(job, sources, targets)
    out = out.resolve()
    with hold(out):
        if restart:
            _empty(out)
        finished = _manifest(out)
        begun, stage_request = out / WORK / _BEGUN, {**request, "stages": _STAGES}
        if (finished is not None and finished["request"] != request) or (
            begun.exists() and read_json(begun) != stage_request
        ):
            raise CheckpointError(
                f"{out}: was begun with other text or options; use another folder, or --restart to begin anew"
            )
        if finished is not None:
            shutil.rmtree(out / WORK, ignore_errors=True)
            return finished["report"]
        if not begun.exists() and any(path.name != ".lock" for path in out.iterdir()):
            raise DataError(f"{out}: expected a new folder or one with a prepared corpus, found other files")
        write_text(begun, json.dumps(stage_request))
        with open_engine(job.engine, job.workers) as engine:
            work = out / WORK
            run = partial(run_tasks, folder=work, engine=engine, say=say)
            stages = Stages(job, out, work, run, say)
            parts = cut(sources, targets, job.shard_pairs)
            with disk_errors(out):
                shards, development = stages.prepare(parts)
        manifest = {
            "request": request,
            "checksum": _checksum_of(shards, stages.subwords),
            "subwords": stages.subwords.digest(),
            "names": {
                "train": list(sources),
                "dev": list(sources) if job.development is None else [job.development[0]],
            },
            "shards": [{"rows": shard["rows"], "files": shard["files"]} for shard in shards],
            "dev_pairs": development,
            "report": stages.report,
        }
        write_text(out / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))
        shutil.rmtree(out / WORK)
        return stages.report


def _request(job: Preparation, sources: list[str], targets: list[str]) -> dict[str, Any]:
    request = {
        "format": _FORMAT,
        "inputs": [stamp_of(name) for name in (*sources, *targets)],
        "fields": list(job.fields),
        "rules": job.rules.to_json(),
        "near": job.near,
        "subword_config": job.subwords.model_dump(exclude={"copy_from"}),
        "given_subwords": None if job.given is None else job.given.digest(),
        "sample": job.sample,
        "dev_pairs": job.dev_pairs,
        "max_length": job.longest,
        "shard_pairs": job.shard_pairs,
        "seed": job.seed,
    }
    if job.development is not None:
        request["development"] = [stamp_of(name) for name in filter(None, job.development)]
    if job.rules.cleaning.held_out:
        request["held_out"] = [stamp_of(name) for name in job.rules.cleaning.held_out]
    return json.loads(json.dumps(request))


def _manifest(out: Path) -> dict[str, Any] | None:
    """Return the manifest of a finished corpus, if it is one; raises `CheckpointError` for one of something else."""
    return read_manifest(out, "shards") if (out / MANIFEST).exists() else None


def _empty(out: Path) -> None:
    """Remove a corpus or the beginning of one; raises `DataError` or `CheckpointError` if the folder holds another."""
    if _manifest(out) is None and not (out / WORK / _BEGUN).exists():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise DataError(f"{out}: expected a folder with a prepared corpus, found other files")
        return
    (out / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(out / WORK, ignore_errors=True)
    for pattern in _WRITTEN:
        for path in out.glob(pattern):
            path.unlink()


def _checksum_of(shards: list[Task], subwords: Subwords) -> str:
    digest = hashlib.sha256(subwords.digest().encode())
    for shard in shards:
        digest.update(json.dumps(shard["files"], sort_keys=True).encode())
    return digest.hexdigest()[:12]

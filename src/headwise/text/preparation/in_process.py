"""Preparation of a run's parallel text in this process: one shard, in the order of the files.

`prepare` opens the prepared folder where neither the files nor the configuration changed, and builds it otherwise. The
text is streamed through the stages (`headwise.text.preparation.stages`), so that a corpus may be larger than memory
(about 30 bytes per pair are held in memory).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headwise.config import DataConfig, SubwordConfig
from headwise.config.keys import recorded
from headwise.data.prepared import prepare_folder, stamp, write_manifest
from headwise.text.preparation.cleaning import Rules
from headwise.text.preparation.file_parts import FilePart
from headwise.text.preparation.parallel import PreparedData
from headwise.text.preparation.stages import Preparation, Stages
from headwise.text.preparation.stores import SIDES, TRAIN_TEXT, ParallelStore
from headwise.text.preparation.tasks import Task, run_task
from headwise.text.reading.pairs import PairFiles, development_files, training_files
from headwise.text.tokens.subwords import Subwords

_FORMAT = 1
_SAMPLE = 2_000_000  # pairs, about, that subwords are learned from, at most


def prepare(
    config: DataConfig,
    subword_config: SubwordConfig,
    directory: str | Path,
    *,
    seed: int = 1,
    max_length: int = 512,
    subwords: Subwords | None = None,
    add_subwords: int = 0,
    expected: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> PreparedData[ParallelStore]:
    """Prepare the folder, or reuse it where neither files nor options have changed.

    Args:
        config: the files, the cleaning rules and the number of worker processes.
        subword_config: how subwords are learned (ignored for the model where `subwords` is given).
        directory: the prepared folder.
        seed: seed of the development split.
        max_length: maximum length of a sentence in subwords, EOS included; longer pairs are dropped and counted.
        subwords: a given subword model, instead of a learned one.
        add_subwords: number of subwords, at most, that are learned and added to the given ones; from the files that the
            development set is split off, as replayed text has none that are new.
        expected: `checksum` of the text that the run began with.
        say: callback for a progress message at each stage of preparation.

    Raises as `prepare_folder`, `DataError` for an unusable file, and `ConfigError` where the lists of files don't
    match, or the vocabulary doesn't fit the text.
    """
    directory = Path(directory)
    training, development = training_files(config), development_files(config)
    job = Preparation(
        [str(files.source) for files in training],
        fields=(config.source_field, config.target_field),
        rules=Rules(config.cleaning),
        subwords=subword_config,
        augment=config.augment,
        given=subwords,
        add_subwords=add_subwords,
        sample=_SAMPLE,
        development=_names(development) if development else None,
        dev_pairs=0 if development else config.dev_pairs,
        new_files=config.dev_files,
        longest=max_length,
        shard_pairs=0,
        seed=seed,
        workers=config.workers,
    )
    request = _request(job, training, [development] if development else [])
    parts = [FilePart(*_names(each), number) for number, each in enumerate(training)]

    build = partial(_build, job=job, parts=parts, say=say)
    return prepare_folder(directory, request, PreparedData.open, build, expected)


def _request(job: Preparation, training: Sequence[PairFiles], development: Sequence[PairFiles]) -> dict[str, Any]:
    """Return everything that the prepared folder depends on, as JSON values; raises `DataError`."""
    cleaning = job.rules.cleaning
    text = [path for files in (*training, *development) for path in files.paths]
    return {
        "format": _FORMAT,
        "training": [[str(path) for path in files.paths] for files in training],
        "development": [str(path) for path in development[0].paths] if development else None,
        "inputs": [stamp(path) for path in (*text, *map(Path, cleaning.held_out))],
        "fields": list(job.fields),
        "cleaning": recorded(cleaning),
        "dev_pairs": job.dev_pairs,
        **({"dev_files": job.new_files} if job.new_files else {}),
        **({"augment": job.augment.model_dump()} if job.augment.active else {}),
        "subword_config": job.subwords.model_dump(exclude={"copy_from"}),
        "given_subwords": job.given.digest() if job.given else None,
        **({"add_subwords": job.add_subwords} if job.add_subwords else {}),
        "seed": job.seed,
        "max_length": job.longest,
    }


def _build(
    folder: Path,
    request: dict[str, Any],
    job: Preparation,
    parts: Sequence[FilePart],
    say: Callable[[str], None],
) -> None:
    """Build the prepared data in `folder`, reporting each stage through `say`; raises as `prepare` does."""

    def run(title: str, tasks: list[Task]) -> list[Task]:
        if tasks:
            say(title)
        return list(map(run_task, tasks))

    work = folder / "work"
    work.mkdir()
    stages = Stages(job, folder, work, run, say)
    stages.prepare(parts)
    if job.subwords.dropout or job.augment.active:
        for path in (path for side in SIDES for path in work.glob(f"{TRAIN_TEXT}.{side}.*")):
            path.rename(folder / path.name)
        (work / "train.rows").rename(folder / "train.rows")
    shutil.rmtree(work)
    names = {"train": job.sources, "dev": job.sources if job.development is None else [job.development[0]]}
    write_manifest(folder, request, stages.report, subwords=stages.subwords.digest(), names=names)


def _names(files: PairFiles) -> tuple[str, str | None]:
    return str(files.source), files.target and str(files.target)

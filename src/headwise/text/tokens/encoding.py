"""Encoding of text to ids in parallel worker processes.

A job is a range of rows of a text table. Workers are child processes that read the memory-mapped text and write their
own part, so that no text is sent between processes, and memory doesn't limit it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from headwise.config import AugmentConfig
from headwise.data.ragged import Ragged, RaggedWriter, gather, map_array
from headwise.files import disk_errors
from headwise.processes import Children, processors
from headwise.text.augmentation import augment
from headwise.text.tokens.bpe_dropout import DropoutSegmenter
from headwise.text.tokens.loading import load_vocabulary
from headwise.text.tokens.pair_vocabulary import Side
from headwise.text.tokens.subwords import EOS, Subwords

CHUNK = 8192  # rows encoded per step; BPE-dropout and augmentation have one random stream per chunk
_AUGMENTED = 2  # in the seed of augmentation, which both sides share, where that of BPE-dropout has the side
_ALONE_BELOW = 100_000  # rows; fewer are encoded faster than a second process starts


@dataclass(frozen=True)
class EncodingJob:
    """A job: encode rows `start` to `stop` of a text table. Paths are strings so that it serializes to JSON."""

    text: str  # table of UTF-8 rows
    rows: str  # int64 array of row indices in `text`
    tokens: str  # directory of the subword models, or of the vocabulary of monolingual text
    side: Side | None  # of sentence pairs; None: monolingual text
    out: str  # table of ids to write
    start: int
    stop: int
    dropout: float = 0.0
    augment: dict[str, float] | None = None  # shares of the pairs that are changed (`AugmentConfig`)
    other: str = ""  # with `augment`: table of the other side
    seed: int = 0
    epoch: int = 0
    # 0: no limit; otherwise rows of more subwords are segmented without dropout, and those of as many bytes not changed
    longest: int = 0
    documents: bool = False  # monolingual text in which each row ends with EOS


def id_type(vocabulary: int) -> np.dtype:
    """Return the smallest integer type that holds every id of a vocabulary."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.int32)


def encode(jobs: Sequence[EncodingJob], workers: int) -> list[list[EncodingJob]]:
    """Run the jobs; returns for each job the parts it was split into, in row order.

    Small jobs run in this process, larger ones in `workers` processes (0: one per core).

    Raises:
        TrainingError: the disk is full or the folder can't be written.
    """
    workers = workers or processors()
    rows = max((job.stop - job.start for job in jobs), default=0)
    if workers == 1 or rows < _ALONE_BELOW:
        for job in jobs:
            run(job)
        return [[job] for job in jobs]
    parts = [_split(job, workers) for job in jobs]
    _run_processes([part for job_parts in parts for part in job_parts], workers)
    return parts


def encode_whole(jobs: Sequence[EncodingJob], workers: int) -> None:
    """Run the jobs as `encode` does, and concatenate the parts of each job in its `out`."""
    for job, parts in zip(jobs, encode(jobs, workers), strict=True):
        if [job] == parts:
            continue
        tables = [open_part(part) for part in parts]
        with disk_errors(Path(job.out)), RaggedWriter(Path(job.out), tables[0].values.dtype) as writer:
            for table in tables:
                for start in range(0, len(table), CHUNK):
                    writer.append(*gather(table, np.arange(start, min(start + CHUNK, len(table)))))
        for part in parts:
            remove_part(part)


def open_part(job: EncodingJob) -> Ragged:
    """Open the ids that a job has written."""
    return Ragged(Path(job.out), id_type(_vocabulary(job)[0]))


def remove_part(job: EncodingJob) -> None:
    """Remove the ids that a job has written."""
    for file in Path(job.out).parent.glob(f"{Path(job.out).name}.*"):
        file.unlink()


def run(job: EncodingJob) -> None:
    """Run one job in this process."""
    size, encode_batch = _vocabulary(job)
    end = [EOS] if job.documents or job.side == "source" else []
    text, rows = Ragged(Path(job.text), np.uint8), map_array(Path(job.rows), np.int64)
    other = Ragged(Path(job.other), np.uint8) if job.augment else None
    with disk_errors(Path(job.out)), RaggedWriter(Path(job.out), id_type(size)) as writer:
        for start in range(job.start, job.stop, CHUNK):
            chosen = rows[start : min(start + CHUNK, job.stop)]
            texts = text.texts(chosen)
            if other is not None:
                texts = _augmented(job, texts, other.texts(chosen), start)
            writer.append(*flatten(encode_batch(texts, start), end))


def _vocabulary(job: EncodingJob) -> tuple[int, Callable[[list[str], int], list[list[int]]]]:
    """Return the number of ids of a job's text, and what encodes texts from a row on."""
    if job.side is None:
        vocabulary = load_vocabulary(Path(job.tokens))
        return vocabulary.size, lambda texts, _: vocabulary.encode_batch(texts)
    subwords = Subwords.load(Path(job.tokens))
    processor = subwords.source_processor if job.side == "source" else subwords.target_processor
    if not job.dropout:
        return processor.vocab_size(), lambda texts, _: processor.encode(texts, num_threads=1)
    assert isinstance(processor, SentencePieceProcessor)  # the configuration refuses dropout with others
    segmenter = DropoutSegmenter(processor, job.dropout)

    def encode_batch(texts: list[str], start: int) -> list[list[int]]:
        random = np.random.default_rng([job.seed, job.epoch, int(job.side == "source"), start])
        ids = segmenter.encode_batch(texts, random)
        too_long = [index for index, row in enumerate(ids) if len(row) > job.longest > 0]
        plain = processor.encode([texts[index] for index in too_long], num_threads=1)
        for index, row in zip(too_long, plain, strict=True):
            ids[index] = row
        return ids

    return processor.vocab_size(), encode_batch


def _augmented(job: EncodingJob, texts: list[str], other: list[str], start: int) -> list[str]:
    """Return the job's side of the augmented pairs; the job of the other side makes the same ones."""
    assert job.augment is not None
    source = job.side == "source"
    sources, targets = (texts, other) if source else (other, texts)
    random = np.random.default_rng([job.seed, job.epoch, _AUGMENTED, start])
    # A side has at most as many subwords as bytes, and one for the space in front.
    sides = augment(sources, targets, AugmentConfig(**job.augment), random, max(1, job.longest - 1))
    return sides[0 if source else 1]


def flatten(rows: list[list[int]], end: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return rows of ids, each with `end` behind it, as a flat array and the length of each row."""
    lengths = np.fromiter((len(row) + len(end) for row in rows), np.int64, len(rows))
    flat = itertools.chain.from_iterable(itertools.chain(row, end) for row in rows)
    return np.fromiter(flat, np.int32, int(lengths.sum())), lengths


def _split(job: EncodingJob, parts: int) -> list[EncodingJob]:
    """Split a job at multiples of `CHUNK`, so that the random streams don't depend on the number of parts."""
    chunks = -(-(job.stop - job.start) // CHUNK)
    bounds = [min(job.start + CHUNK * (chunks * part // parts), job.stop) for part in range(parts + 1)]
    pieces = enumerate(itertools.pairwise(bounds))
    return [replace(job, out=f"{job.out}.{i}", start=a, stop=b) for i, (a, b) in pieces if a < b]


def _run_processes(jobs: list[EncodingJob], workers: int) -> None:
    with Children("headwise.text.tokens.encoding:run_all", workers) as children:
        for encoded in [children.submit(asdict(job)) for job in jobs]:
            encoded.result()


def run_all(jobs: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Run jobs, given as their fields, in a child process (`headwise.processes.Child`)."""
    for job in jobs:
        run(EncodingJob(**job))
        yield None

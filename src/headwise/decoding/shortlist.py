"""Vocabulary shortlists: the few target subwords that a source sentence can need, learned from parallel text.

A sentence's list holds, for each of its source subwords, the target subwords that this one most likely becomes, and
the most frequent target subwords of all (the candidate lists of Jean et al. 2015, "On using very large target
vocabulary for neural machine translation", section 3). Likelihoods are the translation probabilities t(f | e) of IBM
Model 1 (Brown et al. 1993, "The mathematics of statistical machine translation", section 4.1). A sentence's list
depends on that sentence alone, so that no translation depends on its batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from headwise.data.ragged import Ragged, gather
from headwise.errors import CheckpointError
from headwise.files import write_bytes
from headwise.parsing.json_text import parse_object
from headwise.text.tokens.subwords import EOS, UNK

FILE = "shortlist.safetensors"  # in a run directory
_CHUNK = 4_000_000  # links that are computed at once
_LINKS = 60_000_000  # in all; each takes four bytes while learning


@dataclass(frozen=True)
class Shortlist:
    """What `learn_shortlist` found.

    Attributes:
        candidates: target ids (source_size, k) that a source subword becomes.
        common: target ids (n,) that every sentence may have, the end symbol among them.
        target_size: subwords of the target vocabulary.
    """

    candidates: NDArray[np.int32]
    common: NDArray[np.int32]
    target_size: int

    def __str__(self) -> str:
        """Say what it is in a phrase."""
        each = f"up to {self.candidates.shape[1]} target subwords for each source subword"
        return f"{each}, {len(self.common)} for all"

    def __call__(self, source: Sequence[int] | NDArray[Any]) -> NDArray[np.int32]:
        """Return the target ids of a source sentence's list, ascending; the end symbol is always one of them."""
        listed = np.zeros(self.target_size, dtype=bool)
        listed[self.common] = True
        listed[self.candidates[np.asarray(source, dtype=np.int64)]] = True
        return np.flatnonzero(listed).astype(np.int32)

    def coverage(self, source: Ragged, target: Ragged) -> tuple[float, float]:
        """Return the mean length of a list, and the share of target subwords that are in their sentence's list."""
        length = covered = 0
        for row in range(len(source)):
            listed = self(source[row])
            length += len(listed)
            covered += int(np.isin(target[row], listed).sum())
        return length / max(len(source), 1), covered / max(len(target.values), 1)

    def save(self, path: Path, subwords: str) -> None:
        """Write it; `subwords` is the digest of the subword model whose ids these are. Raises `TrainingError`."""
        record = {"subwords": subwords, "target_size": self.target_size}
        tensors = {"candidates": self.candidates, "common": self.common}
        write_bytes(path, save(tensors, {"headwise": json.dumps(record)}))

    @classmethod
    def load(cls, path: Path, subwords: str, source_size: int, target_size: int) -> Shortlist:
        """Read what `save` wrote, for the subwords of this digest and these vocabularies.

        Raises `CheckpointError` where it is missing, damaged, of other subwords, or holds anything but ids of them.
        """
        try:
            with safe_open(path, "np") as file:
                record = parse_object(file.metadata()["headwise"], path)
                stated = record["subwords"], record["target_size"]
                tables = {name: _read_ids(path, file, name) for name in ("candidates", "common")}
        except FileNotFoundError:
            raise CheckpointError(
                f"{path}: expected a shortlist, found no such file; `headwise shortlist {path.parent}` learns it"
            ) from None
        except CheckpointError:
            raise
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: expected a shortlist, found a damaged file ({error})") from None
        if stated[0] != subwords:
            raise CheckpointError(
                f"{path}: expected a shortlist for the run's subwords ({subwords}), found one for others "
                f"({stated[0]})"
            )
        found = cls(**tables, target_size=target_size)
        if problem := found._problem(source_size, stated[1]):
            raise CheckpointError(f"{path}: expected {problem}; the shortlist is damaged")
        return found

    def _problem(self, source_size: int, stated_size: object) -> str | None:
        """Say what was expected of it, and what was found; None where nothing is wrong."""
        if stated_size != self.target_size:
            return f"{self.target_size} target subwords, found {stated_size}"
        if self.candidates.ndim != 2 or len(self.candidates) != source_size:
            shape = self.candidates.shape
            return f"candidates of shape ({source_size}, …), one row for each source subword, found {shape}"
        if self.common.ndim != 1:
            return f"common of one dimension, found shape {self.common.shape}"
        for name, ids in (("candidates", self.candidates), ("common", self.common)):
            wrong = ids[(ids < 0) | (ids >= self.target_size)]
            if wrong.size:
                return f"{name} with ids from 0 to {self.target_size - 1}, found {wrong[0]}"
        if (np.diff(self.common) <= 0).any():
            return "common with ids in ascending order, found others"
        if EOS not in self.common:
            return f"common with the end symbol {EOS}, found it without"
        return None


def _read_ids(path: Path, file: Any, name: str) -> NDArray[np.int32]:
    found = file.get_slice(name).get_dtype()
    if found != "I32":
        raise CheckpointError(f"{path}: expected {name} of type I32, found {found}; the shortlist is damaged")
    return file.get_tensor(name)


def learn_shortlist(
    source: Ragged,
    target: Ragged,
    source_size: int,
    target_size: int,
    *,
    candidates: int,
    common: int,
    joint: bool,
    iterations: int = 5,
) -> Shortlist:
    """Learn from encoded pairs: source rows that end with EOS, and target rows without it.

    EOS plays the empty word of Model 1. With `joint` a source subword is always its own candidate, as names are
    copied. Of text with more than 60 million links between subwords, pairs evenly spread over it are read.
    """
    frequency = np.bincount(target.values, minlength=target_size)
    most = np.argsort(-frequency, kind="stable")[:common]
    always = np.union1d(most[frequency[most] > 0], [UNK, EOS])
    table = np.full((source_size, candidates + joint), EOS, dtype=np.int32)
    if joint:
        table[:, candidates] = np.arange(source_size)
    e, f, probability = translation_probabilities(source, target, target_size, iterations)
    order = np.lexsort((f, -probability, e))  # by source subword; its likeliest first, ties by id
    e, f = e[order], f[order]
    rank = np.arange(len(e)) - np.searchsorted(e, e)
    kept = rank < candidates
    table[e[kept], rank[kept]] = f[kept]
    return Shortlist(table, always.astype(np.int32), target_size)


def translation_probabilities(
    source: Ragged, target: Ragged, target_size: int, iterations: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the pairs (e, f) of source and target subwords that occur together, and t(f | e) of Model 1.

    Every iteration shares each target subword among its sentence's source subwords by t (equation 4.17 and those
    before it, in the form for counts), starting from equal shares, and counts what each of them got.
    """
    chunks = list(_links(source, target, target_size))
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(chunk.keys for chunk in chunks)]))
    places = [np.searchsorted(keys, chunk.keys).astype(np.int32) for chunk in chunks]
    e, f = keys // target_size, keys % target_size
    probability = np.ones(len(keys))
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for chunk, place in zip(chunks, places, strict=True):
            share = probability[place][chunk.inverse]
            share /= np.repeat(np.add.reduceat(share, chunk.begins), chunk.sizes)
            counts[place] += np.bincount(chunk.inverse, share, len(place))
        probability = counts / np.bincount(e, counts)[e]
    return e, f, probability


@dataclass(frozen=True)
class _Links:
    """Every target subword of some pairs with every source subword of its pair.

    keys: the different combinations, as source id · target_size + target id; inverse: each link's; begins, sizes:
    the links of each target subword.
    """

    keys: NDArray[np.int64]
    inverse: NDArray[np.int32]
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]


def _links(source: Ragged, target: Ragged, target_size: int) -> Iterator[_Links]:
    links = source.lengths * target.lengths
    stride = -(-int(links.sum()) // _LINKS)
    rows = np.flatnonzero(target.lengths)[:: max(stride, 1)]
    ends = np.cumsum(links[rows])
    for part in np.split(
        rows, np.searchsorted(ends, np.arange(_CHUNK, ends[-1] if len(ends) else 0, _CHUNK))
    ):
        if not len(part):
            continue
        e, e_lengths = gather(source, part)
        f, f_lengths = gather(target, part)
        sizes = np.repeat(e_lengths, f_lengths)  # of each target subword
        begins = np.cumsum(sizes) - sizes
        first = np.repeat(np.cumsum(e_lengths) - e_lengths, f_lengths)  # of its sentence's source subwords
        place = np.arange(int(sizes.sum())) + np.repeat(first - begins, sizes)
        pairs = e[place].astype(np.int64) * target_size + np.repeat(f.astype(np.int64), sizes)
        keys, inverse = np.unique(pairs, return_inverse=True)
        yield _Links(keys, inverse.astype(np.int32), begins, sizes)

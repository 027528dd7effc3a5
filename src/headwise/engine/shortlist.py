"""Vocabulary shortlists: the likely target subwords of a source sentence, learned from parallel text.

A sentence's shortlist contains the likeliest translations of each of its source subwords and the most frequent target
subwords overall (the candidate lists of Jean et al. 2015, "On using very large target vocabulary for neural machine
translation", section 3). Likelihoods are the translation probabilities t(f | e) of IBM Model 1 (Brown et al. 1993,
"The mathematics of statistical machine translation", section 4.1). A shortlist depends on its sentence alone, so that
no translation depends on its batch.
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
from headwise.parsing import parse_object
from headwise.text.tokens.subwords import EOS, UNK

FILE = "shortlist.safetensors"  # in a run directory
_CHUNK = 4_000_000  # links that are processed at once
_LINKS = 60_000_000  # maximum number of links; each takes four bytes during learning


@dataclass(frozen=True)
class Shortlist:
    """The shortlist of each source sentence, learned by `learn_shortlist`.

    Attributes:
        candidates: likeliest target ids (source_size, k) of each source subword.
        common: target ids (n,) in every sentence's shortlist, the end symbol included.
        target_size: size of the target vocabulary.
    """

    candidates: NDArray[np.int32]
    common: NDArray[np.int32]
    target_size: int

    def __str__(self) -> str:
        """Describe the sizes of the shortlist in a phrase."""
        each = f"up to {self.candidates.shape[1]} target subwords for each source subword"
        return f"{each}, {len(self.common)} for all"

    def __call__(self, source: Sequence[int] | NDArray[Any]) -> NDArray[np.int32]:
        """Return the target ids of a source sentence's shortlist in ascending order; they include the end symbol."""
        is_listed = np.zeros(self.target_size, dtype=bool)
        is_listed[self.common] = True
        is_listed[self.candidates[np.asarray(source, dtype=np.int64)]] = True
        return np.flatnonzero(is_listed).astype(np.int32)

    def coverage(self, source: Ragged, target: Ragged) -> tuple[float, float]:
        """Return the mean length of a shortlist, and the share of target subwords in their sentence's shortlist."""
        length = covered = 0
        for row in range(len(source)):
            ids = self(source[row])
            length += len(ids)
            covered += int(np.isin(target[row], ids).sum())
        return length / max(len(source), 1), covered / max(len(target.values), 1)

    def save(self, path: Path, subwords: str) -> None:
        """Write the shortlist to `path`; `subwords` is the digest of the subword model. Raises `TrainingError`."""
        record = {"subwords": subwords, "target_size": self.target_size}
        type_ = np.uint16 if self.target_size <= 2**16 else np.int32
        tensors = {"candidates": self.candidates.astype(type_), "common": self.common.astype(type_)}
        write_bytes(path, save(tensors, {"headwise": json.dumps(record)}))

    @classmethod
    def load(cls, path: Path, subwords: str, source_size: int, target_size: int) -> Shortlist:
        """Read a shortlist that `save` wrote; `subwords` is the digest of the run's subword model.

        Raises `CheckpointError` where it is missing, damaged, for other subwords, or has invalid ids.
        """
        try:
            with safe_open(path, "np") as file:
                record = parse_object(file.metadata()["headwise"], path)
                stated = record["subwords"], record["target_size"]
                tables = {name: _read_ids(path, file, name) for name in ("candidates", "common")}
        except FileNotFoundError:
            raise CheckpointError(
                f"{path}: expected a shortlist, found no such file; "
                f"`headwise export {path.parent} --to run --shortlist -o DIR` learns it from the run's text"
            ) from None
        except CheckpointError:
            raise
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: expected a shortlist, found a damaged file ({error})") from None
        if stated[0] != subwords:
            raise CheckpointError(
                f"{path}: expected a shortlist for the run's subwords ({subwords}), found one for others ({stated[0]})"
            )
        shortlist = cls(**tables, target_size=target_size)
        if problem := shortlist._problem(source_size, stated[1]):
            raise CheckpointError(f"{path}: expected {problem}; the shortlist is damaged")
        return shortlist

    def _problem(self, source_size: int, stated_size: object) -> str | None:
        """Describe the first invalid value, as what was expected and found; None where all are valid."""
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
    dtype = file.get_slice(name).get_dtype()
    if dtype not in ("U16", "I32"):
        raise CheckpointError(f"{path}: expected {name} of type U16 or I32, found {dtype}; the shortlist is damaged")
    return file.get_tensor(name).astype(np.int32, copy=False)


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
    """Learn a shortlist from encoded sentence pairs: sources that end with EOS, and targets without it.

    `candidates` is the number of target subwords for each source subword, `common` the number of most frequent ones in
    every shortlist. EOS serves as the empty word of Model 1. With `joint` vocabularies a source subword is always its
    own candidate, because names are copied. Of text with more than 60 million links between subwords, only evenly
    spaced pairs are read.
    """
    frequency = np.bincount(target.values, minlength=target_size)
    most_frequent = np.argsort(-frequency, kind="stable")[:common]
    common_ids = np.union1d(most_frequent[frequency[most_frequent] > 0], [UNK, EOS])
    table = np.full((source_size, candidates + joint), EOS, dtype=np.int32)
    if joint:
        table[:, candidates] = np.arange(source_size)
    e, f, probability = translation_probabilities(source, target, target_size, iterations)
    order = np.lexsort((f, -probability, e))  # by source subword, likeliest first, ties by id
    e, f = e[order], f[order]
    rank = np.arange(len(e)) - np.searchsorted(e, e)
    kept = rank < candidates
    table[e[kept], rank[kept]] = f[kept]
    return Shortlist(table, common_ids.astype(np.int32), target_size)


def translation_probabilities(
    source: Ragged, target: Ragged, target_size: int, iterations: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the pairs (e, f) of source and target subwords that occur together, and t(f | e) of Model 1.

    Training is by expectation maximization: every iteration distributes each target subword over its sentence's source
    subwords in proportion to t, which starts uniform, and renormalizes the expected counts (equation 4.17 and those
    before it, in the form for counts).
    """
    chunks = list(_links(source, target, target_size))
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(chunk.keys for chunk in chunks)]))
    key_indices = [np.searchsorted(keys, chunk.keys).astype(np.int32) for chunk in chunks]
    e, f = keys // target_size, keys % target_size
    probability = np.ones(len(keys))
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for chunk, indices in zip(chunks, key_indices, strict=True):
            share = probability[indices][chunk.inverse]
            share /= np.repeat(np.add.reduceat(share, chunk.begins), chunk.sizes)
            counts[indices] += np.bincount(chunk.inverse, share, len(indices))
        probability = counts / np.bincount(e, counts)[e]
    return e, f, probability


@dataclass(frozen=True)
class _Links:
    """All links of a chunk of sentence pairs, each between a target subword and a source subword of its pair.

    keys: the distinct links, as source id · target_size + target id; inverse: index of each link in `keys`; begins,
    sizes: first link and number of links of each target subword.
    """

    keys: NDArray[np.int64]
    inverse: NDArray[np.int32]
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]


def _links(source: Ragged, target: Ragged, target_size: int) -> Iterator[_Links]:
    links = source.lengths * target.lengths
    stride = -(-int(links.sum()) // _LINKS)
    pairs = np.flatnonzero(target.lengths)[:: max(stride, 1)]
    ends = np.cumsum(links[pairs])
    for chunk in np.split(pairs, np.searchsorted(ends, np.arange(_CHUNK, ends[-1] if len(ends) else 0, _CHUNK))):
        if not len(chunk):
            continue
        e, e_lengths = gather(source, chunk)
        f, f_lengths = gather(target, chunk)
        sizes = np.repeat(e_lengths, f_lengths)  # links of each target subword
        begins = np.cumsum(sizes) - sizes
        first = np.repeat(np.cumsum(e_lengths) - e_lengths, f_lengths)  # first source subword of its pair
        source_positions = np.arange(int(sizes.sum())) + np.repeat(first - begins, sizes)
        link_keys = e[source_positions].astype(np.int64) * target_size + np.repeat(f.astype(np.int64), sizes)
        keys, inverse = np.unique(link_keys, return_inverse=True)
        yield _Links(keys, inverse.astype(np.int32), begins, sizes)

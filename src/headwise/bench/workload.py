"""What is computed: a model's shape and weights, and real sentence pairs as subword ids, kept in one folder.

The folder is read by every system's own processes; the weights are the same for all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.config import CleaningConfig, Config, SubwordConfig
from headwise.config.presets import preset
from headwise.corpora.miniature import generate
from headwise.errors import ConfigError, DataError
from headwise.parsing.json_text import read_json
from headwise.processes import child_environment, python_command
from headwise.text.reading.pairs import CleaningReport, clean_pairs, pair_files, read_pairs
from headwise.text.tokens.subwords import EOS, Subwords

if TYPE_CHECKING:
    from headwise.decoding.shortlist import Shortlist

_FILE = "workload.json"
_CONFIG = "config.yaml"
_SHORTLIST = "shortlist.safetensors"
WEIGHTS = "model.safetensors"
_FEWEST = 60  # subwords that a corpus is tried with
_LEARN_FROM = 40_000  # pairs; more change a benchmark's subwords little


@dataclass(frozen=True)
class Workload:
    """A model and sentence pairs.

    sources: ids that end with EOS; targets: ids without BOS and EOS; `trained` tells whether the weights mean
    anything, `text` where the sentences come from.
    """

    folder: Path
    model: str
    source_size: int
    target_size: int
    trained: bool
    text: str
    sources: list[list[int]]
    targets: list[list[int]]

    @property
    def config(self) -> Config:
        """The configuration of model, batches and training."""
        return Config.load(self.folder / _CONFIG)

    @property
    def shortlist(self) -> Shortlist:
        """What `keep_shortlist` kept."""
        from headwise.decoding.shortlist import Shortlist

        sizes = self.source_size, self.target_size
        return Shortlist.load(self.folder / _SHORTLIST, self.model, *sizes)

    @property
    def weights(self) -> Path:
        """The weights, in our names."""
        return self.folder / WEIGHTS

    def save(self) -> None:
        """Write all but the weights."""
        record = {**asdict(self), "folder": str(self.folder)}
        (self.folder / _FILE).write_text(json.dumps(record), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> Workload:
        """Read what `save` wrote."""
        record = read_json(folder / _FILE)
        return cls(**{**record, "folder": folder})


@dataclass(frozen=True)
class Text:
    """Sentence pairs, and where they come from."""

    sources: list[str]
    targets: list[str]
    name: str


def read_text(source: str | None, target: str | None, limit: int = _LEARN_FROM) -> Text:
    """Read parallel files, or grow the built-in miniature corpus where none are given.

    Raises `ConfigError` or `DataError` where the files can't be read.
    """
    if source is None:
        if target is not None:
            raise ConfigError("--target: expected --source beside it, found none")
        pairs = generate(train=min(limit, 5000), dev=0, test=0).train
        return Text([p.source for p in pairs], [p.target for p in pairs], "the built-in miniature corpus")
    files = pair_files(source, target)
    report = CleaningReport()
    found = clean_pairs(read_pairs(files), CleaningConfig(), report)
    kept = [(p.source, p.target) for _, p in zip(range(limit), found, strict=False)]
    if not kept:
        raise DataError(f"{source}: expected sentence pairs, found none that can be used")
    return Text([s for s, _ in kept], [t for _, t in kept], f"{len(kept):,} pairs of {Path(source).name}")


def make_workload(model: str, text: Text, folder: Path, *, vocabulary: int, seed: int = 1) -> Workload:
    """Make an untrained model of a preset's size, with subwords learned from the text."""
    config = Config.from_tree({"model": preset(model).model_dump(mode="json")}, origin=f"--model {model}")
    return _write(config, model, _learn(text, folder, vocabulary), text, folder, vocabulary, seed)


def run_workload(run: Path, text: Text, folder: Path) -> Workload:
    """Take a trained run's model and subwords; raises `CheckpointError` where it isn't one."""
    config = Config.load(run / _CONFIG)
    subwords = Subwords.load(run, config.subwords)
    return _write(config, run.resolve().name, subwords, text, folder, 0, 0, run=run)


def keep_shortlist(workload: Workload, run: Path | None) -> Shortlist:
    """Put a run's shortlist beside its workload; an untrained model's is learned from the workload's own pairs.

    Raises `CheckpointError` where the run has none.
    """
    import numpy as np

    from headwise.data.ragged import Ragged, RaggedWriter
    from headwise.decoding.shortlist import FILE, Shortlist, learn_shortlist

    if run is not None:
        subwords = Subwords.load(run, Config.load(run / _CONFIG).subwords)
        sizes = subwords.source_size, subwords.target_size
        found = Shortlist.load(run / FILE, subwords.digest(), *sizes)
    else:
        for name, rows in (("source", workload.sources), ("target", workload.targets)):
            with RaggedWriter(workload.folder / name, np.int32) as writer:
                for row in rows:
                    writer.append(np.asarray(row, np.int32), np.asarray([len(row)]))
        found = learn_shortlist(
            Ragged(workload.folder / "source", np.int32),
            Ragged(workload.folder / "target", np.int32),
            workload.source_size,
            workload.target_size,
            candidates=200,
            common=500,
            joint=True,
        )
    found.save(workload.folder / _SHORTLIST, workload.model)
    return found


def _learn(text: Text, folder: Path, size: int) -> Subwords:
    """Learn subwords; a corpus too small for so many gets as many as it has room for, and ids below them."""
    while True:
        try:
            return Subwords.train(text.sources, text.targets, SubwordConfig(size=size), folder)
        except ConfigError:
            if size < _FEWEST:
                raise
            size = size * 2 // 3


def _write(
    config: Config,
    name: str,
    subwords: Subwords,
    text: Text,
    folder: Path,
    vocabulary: int,
    seed: int,
    run: Path | None = None,
) -> Workload:
    room = config.model.max_length - 1
    sources = [[*ids[:room], EOS] for ids in subwords.encode_source_batch(text.sources)]
    targets = [ids[:room] for ids in subwords.encode_target_batch(text.targets)]
    workload = Workload(
        folder,
        name,
        vocabulary or subwords.source_size,
        vocabulary or subwords.target_size,
        run is not None,
        text.name,
        sources,
        targets,
    )
    workload.save()
    (folder / _CONFIG).write_text(config.to_yaml(), encoding="utf-8")
    if run is not None:
        os.symlink((run / WEIGHTS).resolve(), workload.weights)
    else:
        # Drawn in a process of its own, so that the one that drives the benchmark stays small.
        order = json.dumps([str(folder), seed])
        command = python_command("-m", "headwise.bench.workload", order)
        subprocess.run(command, env=child_environment(), check=True)
    return workload


def draw_weights(folder: Path, seed: int) -> None:
    """Write an untrained model's weights."""
    import torch
    from safetensors.torch import save_file

    from headwise.models.build import build_model

    workload = Workload.open(folder)
    torch.manual_seed(seed)
    model = build_model(workload.config.model, workload.source_size, workload.target_size)
    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, workload.weights)


if __name__ == "__main__":
    _folder, _seed = json.loads(sys.argv[1])
    draw_weights(Path(_folder), _seed)

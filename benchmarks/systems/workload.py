"""Workload of a benchmark: a model's configuration and weights, and sentence pairs as subword ids, in one folder.

The processes of all systems read the folder, so that the weights are the same for all.
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
from headwise.corpora.built_in import read_built_in
from headwise.errors import ConfigError, DataError
from headwise.parsing import read_json
from headwise.processes import child_environment, python_command
from headwise.text.reading.pairs import CleaningReport, clean_pairs, pair_files, read_pairs
from headwise.text.tokens.subwords import EOS, Subwords

if TYPE_CHECKING:
    from headwise.engine.shortlist import Shortlist

_FILE = "workload.json"
_CONFIG = "config.yaml"
_SHORTLIST = "shortlist.safetensors"
WEIGHTS = "model.safetensors"
_FEWEST = 60  # subwords; below that no smaller vocabulary is tried
_LEARN_FROM = 40_000  # pairs to learn subwords from; more change a benchmark's subwords little


@dataclass(frozen=True)
class Workload:
    """A model and sentence pairs.

    Attributes:
        folder: the folder of all files.
        model: the name of the preset or run.
        source_size, target_size: vocabulary sizes.
        trained: whether the weights are trained, not random.
        text: a description of the sentences' origin.
        sources: source ids with EOS.
        targets: target ids without BOS and EOS.
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
        """The configuration of the model, batches and training."""
        return Config.load(self.folder / _CONFIG)

    @property
    def shortlist(self) -> Shortlist:
        """The shortlist that `keep_shortlist` wrote."""
        from headwise.engine.shortlist import Shortlist

        sizes = self.source_size, self.target_size
        return Shortlist.load(self.folder / _SHORTLIST, self.model, *sizes)

    @property
    def weights(self) -> Path:
        """The file of the weights, under Headwise's parameter names."""
        return self.folder / WEIGHTS

    def save(self) -> None:
        """Write all fields; the weights have a file of their own."""
        record = {**asdict(self), "folder": str(self.folder)}
        (self.folder / _FILE).write_text(json.dumps(record), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> Workload:
        """Read a workload that `save` wrote."""
        record = read_json(folder / _FILE)
        return cls(**{**record, "folder": folder})


@dataclass(frozen=True)
class Text:
    """Sentence pairs, and a description of their origin."""

    sources: list[str]
    targets: list[str]
    name: str


def read_text(source: str | None, target: str | None, limit: int = _LEARN_FROM) -> Text:
    """Read parallel files, or the built-in miniature corpus if none are given.

    Raises `ConfigError` or `DataError` if the files can't be read.
    """
    if source is None:
        if target is not None:
            raise ConfigError("--target: expected --source beside it, found none")
        sources, targets = (read_built_in("miniature", f"train.{side}")[: min(limit, 5000)] for side in ("en", "de"))
        return Text(sources, targets, "the built-in miniature corpus")
    files = pair_files(source, target)
    report = CleaningReport()
    cleaned = clean_pairs(read_pairs(files), CleaningConfig(), report)
    kept = [(p.source, p.target) for _, p in zip(range(limit), cleaned, strict=False)]
    if not kept:
        raise DataError(f"{source}: expected sentence pairs, found none that can be used")
    return Text([s for s, _ in kept], [t for _, t in kept], f"{len(kept):,} pairs of {Path(source).name}")


def make_workload(model: str, text: Text, folder: Path, *, vocabulary: int, seed: int = 1) -> Workload:
    """Create a workload with an untrained model of a preset's size, and subwords learned from the text."""
    config = Config.from_tree({"model": preset(model).model_dump(mode="json")}, origin=f"--model {model}")
    return _write(config, model, _learn(text, folder, vocabulary), text, folder, vocabulary, seed)


def run_workload(run: Path, text: Text, folder: Path) -> Workload:
    """Create a workload from a trained run's model and subwords; raises `CheckpointError` if it isn't one."""
    config = Config.load(run / _CONFIG)
    subwords = Subwords.load(run, config.subwords)
    return _write(config, run.resolve().name, subwords, text, folder, 0, 0, run=run)


def keep_shortlist(workload: Workload, run: Path | None) -> Shortlist:
    """Write the run's shortlist to the workload's folder; without a run, learn one from the workload's pairs.

    Raises `CheckpointError` if the run has none.
    """
    import numpy as np

    from headwise.data.ragged import Ragged, RaggedWriter
    from headwise.engine.shortlist import FILE, Shortlist, learn_shortlist

    if run is not None:
        subwords = Subwords.load(run, Config.load(run / _CONFIG).subwords)
        sizes = subwords.source_size, subwords.target_size
        shortlist = Shortlist.load(run / FILE, subwords.digest(), *sizes)
    else:
        for name, sentences in (("source", workload.sources), ("target", workload.targets)):
            with RaggedWriter(workload.folder / name, np.int32) as writer:
                for ids in sentences:
                    writer.append(np.asarray(ids, np.int32), np.asarray([len(ids)]))
        shortlist = learn_shortlist(
            Ragged(workload.folder / "source", np.int32),
            Ragged(workload.folder / "target", np.int32),
            workload.source_size,
            workload.target_size,
            candidates=200,
            common=500,
            joint=True,
        )
    shortlist.save(workload.folder / _SHORTLIST, workload.model)
    return shortlist


def _learn(text: Text, folder: Path, size: int) -> Subwords:
    """Learn `size` subwords; fewer, so that ids stay below `size`, from a corpus too small for so many."""
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
    most = config.model.max_length - 1  # subwords, without BOS or EOS
    sources = [[*ids[:most], EOS] for ids in map(subwords.encode_source, text.sources)]
    targets = [ids[:most] for ids in map(subwords.encode_target, text.targets)]
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
        # In a process of its own, so that the benchmark's main process stays small.
        arguments = json.dumps([str(folder), seed])
        command = python_command("-m", "benchmarks.systems.workload", arguments)
        subprocess.run(command, env=child_environment(), check=True)
    return workload


def draw_weights(folder: Path, seed: int) -> None:
    """Initialize an untrained model and write its weights."""
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

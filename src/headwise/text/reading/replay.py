"""Replay of old training text beside new text, against forgetting (`headwise train --mix OLD=SHARE`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwise.config import Config, DataConfig
from headwise.config.languages import base_code
from headwise.errors import ConfigError, DataError
from headwise.shipped.runs import find_run
from headwise.text.reading.pairs import PairFiles, has_fields, is_two_sided, training_files


@dataclass(frozen=True)
class Replay:
    """Old training text, and the share of the training examples that are drawn from it."""

    origin: str  # as the user named it
    data: DataConfig
    share: float
    of_run: bool = True  # or else files, which are read with the fields of the new text


def read_replay(option: str) -> Replay:
    """Read `OLD=SHARE`, where OLD is a run directory, `SOURCE,TARGET`, or one file with both sides.

    Raises `ConfigError` for anything else, and `DataError` if a file of a run's training text doesn't exist any more.
    """
    origin, _, number = option.rpartition("=")
    try:
        share = float(number)
    except ValueError:
        share = math.nan
    if not origin or not 0 < share < 1:
        raise ConfigError(f"--mix: expected OLD=SHARE with a share between 0 and 1, found {option!r}")
    run = find_run(origin)
    if not run.is_dir():
        source, *target = origin.split(",")
        if len(target) != (0 if is_two_sided(source) else 1):
            raise ConfigError(
                f"--mix {origin}: expected a run, SOURCE,TARGET or one file with both sides, found none of them"
            )
        data = Config.from_tree({"data": {"source": [source], "target": target}}, "command line").data
    else:
        config = Config.of_run(run)
        if config.task != "translation":
            raise ConfigError(f"--mix {origin}: expected a translation run, found one of task {config.task}")
        data = config.data
        if not data.source:
            raise ConfigError(
                f"--mix {origin}: expected a run that names its training text, found none in its data.source "
                "(it was imported, for instance); name the files: --mix SOURCE,TARGET=SHARE"
            )
        _check_files_exist(origin, training_files(data))
    return Replay(origin, data, share, run.is_dir())


def with_replay(new: DataConfig, replays: Sequence[Replay], count: Callable[[DataConfig], int]) -> DataConfig:
    """Add old files to the new ones, with weights that give each its share of the examples.

    The shares are divided among several files in proportion to their `data.weights` or, without weights, to the numbers
    of their pairs, which `count` returns. A development set is split off the new files only. Raises `ConfigError` if
    the shares leave nothing for the new text, for a run whose files have other fields than the new text's, and for
    text that is the other way around, as its languages say.
    """
    rest = 1 - sum(replay.share for replay in replays)
    if rest <= 0:
        raise ConfigError(f"--mix: expected shares with a sum below 1, as the rest is the new text, found {1 - rest:g}")
    files = training_files(new)
    weights = _weights(new, rest, count)
    source, target = list(new.source), list(new.target)
    for replay in replays:
        old = replay.data
        languages, others = _languages(new), _languages(old)
        if "" not in languages and languages[0] != languages[1] and others == languages[::-1]:
            raise ConfigError(
                f"--mix {replay.origin}: expected text from {languages[0]} to {languages[1]} as the new one, found the "
                "other way around"
            )
        if replay.of_run and any(map(has_fields, old.source)) and _fields(old) != _fields(new):
            raise ConfigError(
                f"--mix {replay.origin}: expected files with the fields {' and '.join(_fields(new))}, as the new text "
                f"has, found {' and '.join(_fields(old))}"
            )
        old = old.model_copy(update={"source_field": new.source_field, "target_field": new.target_field})
        weights += _weights(old, replay.share, count)
        source += old.source
        target += old.target
    return new.model_copy(update={"source": source, "target": target, "weights": weights, "dev_files": len(files)})


def _weights(data: DataConfig, share: float, count: Callable[[DataConfig], int]) -> list[float]:
    """Divide a share among the files; rounded, so that the same files give the same weights everywhere."""
    files = training_files(data)
    parts: list[float] = list(data.weights)
    if not parts:
        parts = [1.0] if len(files) == 1 else [float(count(_only(data, pair))) for pair in files]
    return [round(share * part / sum(parts), 6) for part in parts]


def _only(data: DataConfig, files: PairFiles) -> DataConfig:
    target = [] if files.target is None else [str(files.target)]
    return data.model_copy(update={"source": [str(files.source)], "target": target, "weights": []})


def _fields(data: DataConfig) -> tuple[str, str]:
    return data.source_field, data.target_field


def _languages(data: DataConfig) -> list[str]:
    return ["" if code is None else base_code(code) for code in data.languages]


def _check_files_exist(origin: str, files: Sequence[PairFiles]) -> None:
    for path in (path for pair in files for path in pair.paths):
        if not path.is_file():
            raise DataError(
                f"--mix {origin}: expected its training text {path}, found no such file; name the files where they are "
                "now: --mix SOURCE,TARGET=SHARE"
            )

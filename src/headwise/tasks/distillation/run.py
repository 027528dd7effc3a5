"""Distillation runs: the teacher translates in the run directory, and the student's configuration follows from that."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.config import Config, DataConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.files import hold
from headwise.nn.device import find_device
from headwise.tasks.corpus.runs import Runs
from headwise.tasks.distillation.source import SourceText
from headwise.tasks.distillation.student import student_data, student_recipe
from headwise.tasks.distillation.translations import MANIFEST, translate_text
from headwise.tasks.recipes import Recipe
from headwise.tasks.registry import find_task

FOLDER = "distilled"  # in the run directory


@dataclass(frozen=True)
class Distillation:
    """What a student is made from.

    Attributes:
        teacher: the teacher.
        changes: `key.sub=value` overrides of the student's configuration; `data.source` are the files to translate.
        references: for each of these files the one with the real translations, or none.
        interpolate: whether references choose among the teacher's hypotheses, instead of being learned from, too.
        tokenize: sacreBLEU's tokenizer for that choice.
        new_vocabulary: whether the student learns its own subwords instead of using the teacher's.
    """

    teacher: Runs
    changes: Sequence[str]
    references: Sequence[str] = ()
    interpolate: bool = False
    tokenize: str = "13a"
    new_vocabulary: bool = False


def prepare_student(
    job: Distillation, run: Path, *, restart: bool, say: Callable[[str], None], quiet: bool = False
) -> Recipe:
    """Let the teacher translate in a run directory, or what is missing there, and return the student's configuration.

    If the run has a checkpoint, the configuration is the run's own, with the changes; `restart` ignores it. What would
    stop the training is found before the first sentence is translated, if the configuration alone shows it.

    Raises a `HeadwiseError` for what the user can correct: options, text, a run of the teacher, the disk, or a run
    directory with another run.
    """
    if any(run.resolve() == teacher.resolve() for teacher in job.teacher.runs):
        raise ConfigError(f"-o {run}: expected a new run directory, found the teacher's")
    if job.interpolate and not job.references:
        raise ConfigError("--interpolate: expected references to choose by (--target), found none")
    if not job.new_vocabulary and any(change.startswith("subwords.size=") for change in job.changes):
        raise ConfigError(
            "subwords.size: expected --new-vocabulary beside it, as the teacher's subwords are used"
        )
    resumes = (run / "latest").exists() and not restart
    folder = run / FOLDER
    if resumes and not (folder / MANIFEST).exists():
        raise CheckpointError(
            f"{run}: expected a new folder or a distilled run, found another one; use --restart"
        )
    base = Config().with_overrides(c for c in job.changes if c.startswith(("data.", "training.")))
    source, _ = Config.load(job.teacher.runs[0] / "config.yaml").data.languages
    base.data.source_language = base.data.source_language or source
    base.data.target_language = base.data.target_language or job.teacher.target_language()
    text = SourceText(
        [Path(path) for path in base.data.source],
        [Path(path) for path in job.references],
        tokenize=job.tokenize,
        max_words=base.data.cleaning.max_words,
    )

    if not job.interpolate:
        text = dataclasses.replace(text, references=[])

    def student(targets: Sequence[Path], vocabulary: Path) -> Recipe:
        data = student_data(base.data, targets, job.references, interpolated=job.interpolate)
        changes = [*job.changes, *file_changes(data)]
        if resumes:
            config = Config.load(run / "config.yaml", changes)
            return Recipe(config, [f"{run}: going on with its own configuration"])
        recipe = student_recipe(
            data,
            None if job.new_vocabulary else vocabulary,
            seed=base.training.seed,
            timed=base.training.max_minutes is not None,
        )
        config = recipe.config.with_overrides(changes)
        return Recipe(config, [*recipe.reasons, *differences(recipe.config, config)])

    check_student(student(text.sources, job.teacher.runs[0]).config)
    with hold(run):
        translations = translate_text(job.teacher, text, folder, restart=restart, say=say, quiet=quiet)
    say(f"{folder}: {translations.report}")
    return student(translations.files, folder)


def file_changes(data: DataConfig, keys: Sequence[str] = ("source", "target")) -> list[str]:
    """Return overrides for the training files."""
    return [f"data.{key}={json.dumps(getattr(data, key), ensure_ascii=False)}" for key in keys]


def differences(recipe: Config, config: Config) -> list[str]:
    """Return a line with every value of `config` that differs from the recipe's, except for the data; or none."""
    sections = [name for name in Config.model_fields if name not in ("task", "data")]
    given = [
        f"{section}.{key}={value}"
        for section in sections
        for key, value in getattr(config, section)
        if value != getattr(getattr(recipe, section), key)
    ]
    return [f"given instead: {', '.join(given)}"] if given else []


def check_student(config: Config) -> None:
    """Raise `ConfigError` or `DeviceError` if the configuration, or its device, can't be trained with."""
    if config.task != "translation":
        raise ConfigError(f"task: expected translation, found {config.task}")
    find_task(config.task).check(config)
    find_device(config.training.device)

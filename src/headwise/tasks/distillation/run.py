"""Distillation runs: the teacher translates in the run directory, and the student's configuration follows from that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.tasks.corpus.runs import Runs
from headwise.tasks.distillation.learning import Learner
from headwise.tasks.distillation.source import SourceText
from headwise.tasks.distillation.student import student_data, student_recipe
from headwise.tasks.recipes import Recipe

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
    learner = Learner(run, FOLDER, job.teacher, job.changes, restart)
    learner.check(teacher="the teacher's", kind="a distilled run")
    if job.interpolate and not job.references:
        raise ConfigError("--interpolate: expected references to choose by (--target), found none")
    if not job.new_vocabulary and any(change.startswith("subwords.size=") for change in job.changes):
        raise ConfigError(
            "subwords.size: expected --new-vocabulary beside it, as the teacher's subwords are used"
        )
    base = learner.base
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
        return learner.recipe(
            data,
            ("source", "target"),
            lambda: student_recipe(
                data,
                None if job.new_vocabulary else vocabulary,
                seed=base.training.seed,
                timed=base.training.max_minutes is not None,
            ),
        )

    return learner.learn(text, student, say=say, quiet=quiet)

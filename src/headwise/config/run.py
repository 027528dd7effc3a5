"""The complete configuration of a run, with the paper's values as defaults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from headwise.config.base import Section, Writable
from headwise.config.data import DataConfig, SubwordConfig
from headwise.config.keys import IMAGES, MAY_CHANGE, TEXTS, YOUNGER, Tasks, recorded
from headwise.config.loading import apply_overrides, describe_problem, find_file
from headwise.config.model import ModelConfig
from headwise.config.removed import without_removed
from headwise.config.tasks import (
    ClassificationConfig,
    DenoisingConfig,
    ImageClassificationConfig,
    ImageTextConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TaskSection,
)
from headwise.config.training import (
    BatchConfig,
    DecodingConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)
from headwise.errors import CheckpointError, ConfigError
from headwise.parsing import kind_of, read_yaml
from headwise.plugins import missing

_IN_RUN = "{run}/"
_TEXT = Tasks.all_but(*IMAGES)


class Config(Section):
    """Configuration of a run: the task and all sections."""

    task: Annotated[str, Writable] = "translation"
    # modules of one's own whose parts are used; each needs --import, or importing it before
    imports: Annotated[list[str], Writable, MAY_CHANGE, YOUNGER] = Field(default_factory=list)
    model: ModelConfig = ModelConfig()
    data: Annotated[DataConfig, _TEXT] = DataConfig()
    subwords: Annotated[SubwordConfig, _TEXT] = SubwordConfig()
    batch: BatchConfig = BatchConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: Annotated[DecodingConfig, Tasks.all_but(*TEXTS, *IMAGES), MAY_CHANGE] = DecodingConfig()
    language_model: LanguageModelConfig = LanguageModelConfig()
    masked_language_model: MaskedLanguageModelConfig = MaskedLanguageModelConfig()
    classification: ClassificationConfig = ClassificationConfig()
    tagging: TaggingConfig = TaggingConfig()
    question_answering: QuestionAnsweringConfig = QuestionAnsweringConfig()
    denoising: DenoisingConfig = DenoisingConfig()
    image_classification: ImageClassificationConfig = ImageClassificationConfig()
    image_text: ImageTextConfig = ImageTextConfig()

    @field_validator("imports")
    @classmethod
    def _are_imported(cls, names: list[str]) -> list[str]:
        """Reject modules that aren't imported: a configuration imports no code by itself."""
        for name in missing(names):
            raise ValueError(f"expected --import {name}, as its parts are used, found it not imported")
        return names

    @model_validator(mode="after")
    def _task_options_fit(self) -> Config:
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, TaskSection) and name != self.task and value != field.default:
                raise ValueError(f"{name}: expected nothing here, as task {self.task} has no use for it, found values")
        return self

    @model_validator(mode="after")
    def _shared_is_joint(self) -> Config:
        if self.model.share_embeddings == "all" and not self.subwords.joint:
            raise ValueError(
                "model.share_embeddings=all needs one vocabulary for both languages, found subwords.joint=false "
                "(target shares without the source)"
            )
        return self

    @classmethod
    def load(cls, path: str | Path, overrides: Iterable[str] = (), *, trained: bool = False) -> Config:
        """Read a YAML file and apply `key.sub=value` overrides.

        `configs/NAME.yaml` is a shipped configuration where no such file exists. A file of `data` that begins with
        `{run}/` is in the folder of the YAML file, so that it moves together with the run. With `trained`, removed
        keys are ignored, because only the trained model is used (`headwise.config.removed`).

        Raises `ConfigError` with the file, or the command line where the file alone has none, and every unknown key or
        invalid value.
        """
        path = find_file(Path(path))
        if not path.exists():
            raise ConfigError(f"{path}: there is no such configuration file")
        tree = read_yaml(path)
        if tree is None:
            tree = {}
        if not isinstance(tree, dict):
            raise ConfigError(f"{path}: expected keys and values, found {kind_of(tree)}")
        data = tree.get("data")
        if isinstance(data, dict):
            tree = tree | {"data": _placed(data, path.parent)}
        changed = apply_overrides(tree, overrides)
        try:
            return cls.from_tree(changed, origin=str(path), trained=trained)
        except ConfigError:
            if changed == tree:
                raise
            cls.from_tree(tree, origin=str(path), trained=trained)
            return cls.from_tree(changed, origin="command line", trained=trained)

    @classmethod
    def from_tree(cls, tree: dict[str, Any], origin: str = "configuration", *, trained: bool = False) -> Config:
        """Validate a nested dictionary; raises `ConfigError` with all errors in one message. `trained` as in `load`."""
        kept, problems = without_removed(tree)
        if trained:
            problems = []
        config = None
        try:
            config = cls.model_validate(kept)
        except ValidationError as error:
            problems += [describe_problem(problem, cls) for problem in error.errors()]
        if config is None or problems:
            raise ConfigError(f"{origin}: {'; '.join(problems)}")
        return config

    @classmethod
    def of_run(cls, run: Path, *tasks: str) -> Config:
        """Read the configuration of a trained run, whose task must be one of `tasks`, if given.

        Raises `CheckpointError` for another task or where there is no directory, and `ConfigError` as `load` does.
        """
        if not run.is_dir():
            raise CheckpointError(f"{run}: expected a run directory, found none")
        if (run / "prepared").is_dir() and not (run / "config.yaml").exists():
            raise CheckpointError(
                f"{run}: was stopped before training began; the same `headwise train` command goes on"
            )
        config = cls.load(run / "config.yaml", trained=True)
        if tasks and config.task not in tasks:
            raise CheckpointError(f"{run}: expected a run of task {' or '.join(tasks)}, found one of {config.task}")
        return config

    def with_overrides(self, overrides: Iterable[str]) -> Config:
        """Return a copy with `key.sub=value` overrides applied."""
        return type(self).from_tree(apply_overrides(self.model_dump(), overrides), origin="command line")

    def to_yaml(self) -> str:
        """Return the fully resolved configuration as YAML."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def digest(self) -> str:
        """Return the first 12 hexadecimal digits of the configuration's SHA-256."""
        canonical = json.dumps(recorded(self), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _placed(value: Any, folder: Path) -> Any:
    """Replace `{run}/` by a folder at the beginning of every string in a value of YAML."""
    if isinstance(value, dict):
        return {key: _placed(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_placed(inner, folder) for inner in value]
    if isinstance(value, str) and value.startswith(_IN_RUN):
        return str(folder / value.removeprefix(_IN_RUN))
    return value

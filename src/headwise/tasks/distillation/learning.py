"""Runs that learn from what other runs translate in their directory: what distillation and back-translation share."""

from __future__ import annotations

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
from headwise.tasks.distillation.translations import MANIFEST, translate_text
from headwise.tasks.recipes import Recipe
from headwise.tasks.registry import find_task


@dataclass(frozen=True)
class Learner:
    """A run directory in which a teacher, a run or an ensemble, translates, and the run that learns from that.

    Attributes:
        run: the run directory.
        folder: the folder in it that has the translations.
        teacher: what translates.
        changes: `key.sub=value` overrides of the configuration.
        restart: whether a checkpoint is ignored.
    """

    run: Path
    folder: str
    teacher: Runs
    changes: Sequence[str]
    restart: bool

    def check(self, *, teacher: str, kind: str) -> None:
        """Raise a `HeadwiseError` if the directory is the teacher's, or has a run of another kind to resume."""
        if any(self.run.resolve() == other.resolve() for other in self.teacher.runs):
            raise ConfigError(f"-o {self.run}: expected a new run directory, found {teacher}")
        if self._resumes and not (self.run / self.folder / MANIFEST).exists():
            raise CheckpointError(
                f"{self.run}: expected a new folder or {kind}, found another one; use --restart"
            )

    @property
    def base(self) -> Config:
        """What the changes say of the data and the training, before there is a recipe."""
        return Config().with_overrides(c for c in self.changes if c.startswith(("data.", "training.")))

    def recipe(self, data: DataConfig, keys: Sequence[str], choose: Callable[[], Recipe]) -> Recipe:
        """Return the run's own configuration if it resumes, and otherwise what `choose` returns, with the changes.

        `keys` of `data` follow from the translations and change the configuration, too.
        """
        files = [f"data.{key}={json.dumps(getattr(data, key), ensure_ascii=False)}" for key in keys]
        changes = [*self.changes, *files]
        if self._resumes:
            config = Config.load(self.run / "config.yaml", changes)
            return Recipe(config, [f"{self.run}: going on with its own configuration"])
        chosen = choose()
        config = chosen.config.with_overrides(changes)
        return Recipe(config, [*chosen.reasons, *_differences(chosen.config, config)])

    def learn(
        self,
        text: SourceText,
        recipe: Callable[[Sequence[Path], Path], Recipe],
        *,
        side: str = "target",
        say: Callable[[str], None],
        quiet: bool = False,
    ) -> Recipe:
        """Let the teacher translate what is missing, and return the recipe for the translations.

        `recipe` makes it from the translated files, which are the `side` of the pairs, and from a folder with the
        teacher's subwords. What would stop the training is found before the first sentence is translated, if the
        configuration alone shows it. Raises as `translate_text` does, and `ConfigError` or `DeviceError`.
        """
        _check_trainable(recipe(text.sources, self.teacher.runs[0]).config)
        folder = self.run / self.folder
        with hold(self.run):
            translations = translate_text(
                self.teacher, text, folder, side=side, restart=self.restart, say=say, quiet=quiet
            )
        say(f"{folder}: {translations.report}")
        return recipe(translations.files, folder)

    @property
    def _resumes(self) -> bool:
        return (self.run / "latest").exists() and not self.restart


def _differences(recipe: Config, config: Config) -> list[str]:
    """Return a line with every value of `config` that differs from the recipe's, except for the data; or none."""
    sections = [name for name in Config.model_fields if name not in ("task", "data")]
    given = [
        f"{section}.{key}={value}"
        for section in sections
        for key, value in getattr(config, section)
        if value != getattr(getattr(recipe, section), key)
    ]
    return [f"given instead: {', '.join(given)}"] if given else []


def _check_trainable(config: Config) -> None:
    """Raise `ConfigError` or `DeviceError` if the configuration, or its device, can't be trained with."""
    if config.task != "translation":
        raise ConfigError(f"task: expected translation, found {config.task}")
    find_task(config.task).check(config)
    find_device(config.training.device)

"""Training from two text files or a configuration: what is trained, by which recipe, and the training itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.api.arguments import several, with_arguments
from headwise.config import Config
from headwise.config.languages import parse_languages
from headwise.config.presets import STUDENT, STUDENT_LAYERS, preset_changes, student_changes
from headwise.errors import ConfigError
from headwise.plugins import import_modules
from headwise.shipped.runs import find_run

if TYPE_CHECKING:
    from headwise.api.run import Run
    from headwise.tasks.recipes import Recipe
    from headwise.tasks.run import TrainingResult

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class TrainingRequest:
    """What `headwise train` and `headwise.train` are asked for; what is None or empty isn't.

    `changes` are overrides of the configuration, `key.sub=value`; the others are the arguments of `headwise.train`,
    which describes them.
    """

    changes: Sequence[str] = ()
    config: Path | Config | None = None
    source: list[str] | None = None
    target: list[str] | None = None
    dev_source: str | os.PathLike[str] | None = None
    dev_target: str | os.PathLike[str] | None = None
    languages: str | None = None
    initialize_from: str | os.PathLike[str] | None = None
    mix: Sequence[str] = ()
    out: Path | None = None
    preset: str | None = None
    max_steps: int | None = None
    max_minutes: float | None = None
    device: str | None = None
    seed: int | None = None
    restart: bool = False
    checks: bool = True

    def plan(self) -> TrainingPlan:
        """Choose the configuration; raises a `HeadwiseError` for what can't be trained."""
        file = self.config if isinstance(self.config, Path) else None
        run = self.out or (Path("runs") / file.stem if file else None)
        if run is None:
            raise ConfigError("-o: expected the run directory that training writes to, found none")
        if self.mix and self.source is None and self.config is None:
            raise ConfigError("--mix: expected new text beside it, by --source or -c, found none")
        changes = self._all_changes()
        if self.mix and self.source is not None:
            # a run that resumes has them already
            changes = ["data.weights=[]", "data.dev_files=0", *changes]
        config, reasons = self._configuration(run, changes)
        if self.mix:
            config, more = _mixed(config, self.mix)
            reasons += more
        return TrainingPlan(config, run, reasons, self.restart)

    def _all_changes(self) -> list[str]:
        """Return overrides of the configuration: the preset's, then those given, then the options that aren't None."""
        preset = None if self.preset == STUDENT else self.preset
        training = ("initialize_from", "max_steps", "max_minutes", "device", "seed")
        data = ("source", "target", "dev_source", "dev_target")
        options: dict[str, Any] = {f"training.{name}": getattr(self, name) for name in training}
        options |= {f"data.{name}": getattr(self, name) for name in data}
        if self.languages is not None:
            codes = parse_languages(self.languages)
            options |= dict(zip(("data.source_language", "data.target_language"), codes, strict=True))
        return [
            *(preset_changes(preset) if preset else []),
            *self.changes,
            *(setting(key, value) for key, value in options.items() if value is not None),
        ]

    def _configuration(self, run: Path, changes: list[str]) -> tuple[Config, list[str]]:
        """Return the configuration, from a file, the run that resumes or the recipe for the corpus, and its reasons.

        The preset `student` gives its model a student's size, before the changes.
        """
        student = self.preset == STUDENT

        def changed(config: Config) -> Config:
            return config.with_overrides([*(student_changes(config.model) if student else []), *changes])

        run_config = run / "config.yaml"
        if isinstance(self.config, Config):
            return changed(self.config), []
        if self.config is not None:
            return changed(Config.load(self.config)) if student else Config.load(self.config, changes), []
        resumes = (run / "latest").exists() and not self.restart
        if run_config.exists() and (self.source is None or resumes):
            if student:  # whose width may have been changed since
                changes = [*STUDENT_LAYERS, *changes]
            return Config.load(run_config, changes), [f"{run}: going on with its own configuration"]
        whole = next((c.partition("=")[0] for c in changes if c.startswith(("data.prepared=", "task="))), None)
        if self.source is None and whole is not None:
            return changed(Config()), [f"{whole}: the default configuration; --preset and keys change it"]
        if self.source is None:
            raise ConfigError("train: expected --source and --target, or -c FILE, found neither")
        recipe = _choose(changes, checks=self.checks)
        chosen, reasons, config = recipe.config, recipe.reasons, changed(recipe.config)
        if student:
            chosen = chosen.with_overrides(student_changes(chosen.model))
            layers = f"{config.model.encoder_layers}+{config.model.decoder_layers}"
            reason = (
                f"model: {layers} layers of width {config.model.d_model}, as decoding spends most of its time in the "
                "decoder"
            )
            reasons = [reason, *(other for other in reasons if not other.startswith("model"))]
        before, now = (settings(each.model_dump(mode="json")) for each in (chosen, config))
        if given := [one for one in now if one not in before]:
            reasons = [*reasons, f"given, which overrides the above: {' '.join(given)}"]
        return config, reasons


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained in which directory, and a line of reason for each choice."""

    config: Config
    run: Path
    reasons: list[str] = field(default_factory=list)
    restart: bool = False

    def train(self, *, quiet: bool = False, progress: Callable[[dict[str, Any]], None] | None = None) -> TrainingResult:
        """Train, or resume; raises `KeyboardInterrupt` where Ctrl-C ended it, after a checkpoint was saved.

        `progress` is called with each record of metrics.jsonl. Raises a `HeadwiseError`, as
        `headwise.tasks.run.train` does.
        """
        from headwise.tasks.run import train as train_run

        result = train_run(self.config, self.run, restart=self.restart, quiet=quiet, listener=progress)
        if not result.progress.finished:
            raise KeyboardInterrupt
        return result


@with_arguments
def train(
    source: Files | None = None,
    target: Files | None = None,
    *,
    out: str | os.PathLike[str],
    dev_source: str | os.PathLike[str] | None = None,
    dev_target: str | os.PathLike[str] | None = None,
    languages: str | None = None,
    config: str | os.PathLike[str] | Config | None = None,
    initialize_from: str | os.PathLike[str] | None = None,
    mix: Sequence[str] = (),
    preset: str | None = None,
    max_steps: int | None = None,
    max_minutes: float | None = None,
    device: str | None = None,
    seed: int | None = None,
    restart: bool = False,
    checks: bool = True,
    imports: Sequence[str] = (),
    verbose: bool = False,
    progress: Callable[[dict[str, Any]], None] | None = None,
    **keys: Any,
) -> Run:
    """Train a model from two text files or a configuration, as `headwise train` does; return the trained run.

    With `source` and `target` alone, all hyperparameters are chosen from the corpus. In a run directory with a
    checkpoint, training resumes from there.

    Args:
        source: a text file, or several; .tsv and .jsonl have both sides.
        target: the other language, line by line.
        out: the run directory.
        dev_source: development text; else it is split off.
        dev_target: its other side.
        languages: codes of source and target, such as en-de, where the names of the files don't tell.
        config: a YAML file, or a `Config`, instead of the recipe.
        initialize_from: a trained run to adapt to the text, with its subwords.
        mix: text of other runs to replay, `"runs/de=0.3"` each.
        preset: tiny, base, big, student, or a row of Table 3.
        max_steps: optimizer steps in all.
        max_minutes: time in all.
        device: auto, cpu, cuda, cuda:1 or mps.
        seed: of everything random.
        restart: begin anew in a directory that has a run.
        checks: look at the texts of a new training; identical or swapped sides, and another language, are errors then.
        imports: modules of your own whose parts are used, unless they are imported already.
        verbose: print on standard error what the command line prints.
        progress: called with each record as metrics.jsonl has it: `kind` is train, dev or averaged, with `step`,
            `loss`, …; an exception that it raises ends the training.
        keys: any other key as in YAML: `model={"d_model": 256}`, `batch={"tokens": 2048}`, `task="language_model"`.

    Raises a `HeadwiseError` for what a user can correct, and `KeyboardInterrupt` after Ctrl-C, once it is saved.
    """
    from headwise.api.run import Run

    import_modules(several("imports", imports))
    request = TrainingRequest(
        changes=settings(keys),
        config=Path(config) if isinstance(config, str | os.PathLike) else config,
        source=_files(source),
        target=_files(target),
        dev_source=dev_source,
        dev_target=dev_target,
        languages=languages,
        initialize_from=initialize_from,
        mix=several("mix", mix),
        out=Path(out),
        preset=preset,
        max_steps=max_steps,
        max_minutes=max_minutes,
        device=device,
        seed=seed,
        restart=restart,
        checks=checks,
    )
    plan = request.plan()
    if verbose:
        print(*plan.reasons, sep="\n", file=sys.stderr)
    plan.train(quiet=not verbose, progress=progress)
    return Run(plan.run)


def settings(keys: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the overrides `key.sub=value` of nested keys."""
    changes = []
    for key, value in keys.items():
        if isinstance(value, Mapping):
            changes += settings(value, f"{prefix}{key}.")
        else:
            changes.append(setting(prefix + key, value))
    return changes


def setting(key: str, value: Any) -> str:
    """Return the override of one key; raises `ConfigError` for a value that YAML hasn't, as NumPy's numbers."""
    try:
        return f"{key}={json.dumps(value, ensure_ascii=False, default=os.fspath)}"
    except TypeError:
        raise ConfigError(f"{key}: expected text, a number, a path or a list of them, found {value!r}") from None


def _files(files: Files | None) -> list[str] | None:
    if files is None:
        return None
    return [os.fspath(files)] if isinstance(files, str | os.PathLike) else [os.fspath(file) for file in files]


def _choose(changes: list[str], *, checks: bool) -> Recipe:
    """Return the recipe for the texts; with `checks`, its first reason is what was found in them."""
    from headwise.tasks.recipes import Recipe, adapt, choose, measure, with_subwords_of
    from headwise.tasks.start import begun_from
    from headwise.text.reading.inspection import inspect_texts

    given = ("data.", "training.", "subwords.copy_from=", "model.architecture=")
    config = Config().with_overrides([c for c in changes if c.startswith(given)])
    data, training = config.data, config.training
    timed = training.max_minutes is not None
    start = None if training.initialize_from is None else begun_from(training.initialize_from)
    size = measure(data)
    found = inspect_texts(data, size.pairs, start and start.data.languages) if checks else []
    if start is None:
        architecture = config.model.architecture
        recipe = choose(size, data, seed=training.seed, timed=timed, architecture=architecture)
        copied = config.subwords.copy_from
        recipe = recipe if copied is None else with_subwords_of(recipe, find_run(copied))
    else:
        recipe = adapt(size, start, data, training, timed=timed)
    return Recipe(recipe.config, [*found, *recipe.reasons])


def _mixed(config: Config, options: Sequence[str]) -> tuple[Config, list[str]]:
    """Add the text of `--mix` to the configuration; return it, and a line for each option."""
    from headwise.tasks.recipes import measure
    from headwise.text.reading.replay import read_replay, with_replay

    replays = [read_replay(option) for option in options]
    data = with_replay(config.data, replays, lambda files: measure(files).pairs)
    lines = [
        f"--mix: {replay.share:.0%} of the examples from {replay.origin}, against forgetting" for replay in replays
    ]
    return Config.from_tree({**config.model_dump(), "data": data.model_dump()}), lines

"""Back-translation: a run of the other direction turns text of the target language into synthetic sources.

Sennrich et al. 2016 translate monolingual target text back by a beam search. Edunov et al. 2018 sample instead, from
which a model with much real text learns more. Caswell et al. 2019 put a tag before every synthetic source, with which
beam search does as well: the model learns to tell synthetic from real sources, and translates as from real ones.

The translation resumes after an interruption, as that of a distillation (`headwise.tasks.distillation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.config import Config, DataConfig
from headwise.errors import ConfigError
from headwise.tasks.corpus.runs import Runs
from headwise.tasks.distillation.learning import Learner
from headwise.tasks.distillation.source import SourceText
from headwise.tasks.recipes import Recipe, choose, measure
from headwise.text.reading.replay import Replay, with_replay

FOLDER = "back-translated"  # in the run directory
TAG = "<bt>"  # Caswell et al. 2019, in lower case, as subwords may be


@dataclass(frozen=True)
class BackTranslation:
    """What a run learns from.

    Attributes:
        reverse: the run, or ensemble, that translates from the target to the source language.
        changes: `key.sub=value` overrides of the configuration; `data.source` and `data.target` are the real pairs.
        monolingual: plain text of the target language.
        tagged: whether synthetic sources begin with `TAG`.
        share: share of the training examples that are synthetic; None: that of the pairs.
    """

    reverse: Runs
    changes: Sequence[str]
    monolingual: Sequence[str]
    tagged: bool = True
    share: float | None = None


def prepare_mix(
    job: BackTranslation, run: Path, *, restart: bool, say: Callable[[str], None], quiet: bool = False
) -> Recipe:
    """Translate what is missing in a run directory, and return the configuration that trains on the mix.

    If the run has a checkpoint, the configuration is the run's own, with the changes; `restart` ignores it.

    Raises a `HeadwiseError` for what the user can correct: options, text, a run of the wrong direction, the disk, or a
    run directory with another run.
    """
    learner = Learner(run, FOLDER, job.reverse, job.changes, restart)
    learner.check(teacher="that of the other direction", kind="a run on back-translations")
    base = learner.base
    if len(base.data.source) != len(base.data.target):
        raise ConfigError(
            f"--target: expected one file for each of the {len(base.data.source)} of --source, "
            f"found {len(base.data.target)}"
        )
    _check_direction(job.reverse, base.data)
    text = SourceText(
        [Path(path) for path in job.monolingual],
        max_words=base.data.cleaning.max_words,
        tag=TAG if job.tagged else "",
    )

    def recipe(sources: Sequence[Path], _: Path) -> Recipe:
        data = mixed(base.data, sources, job.monolingual, job.share)
        return learner.recipe(
            data,
            ("source", "target", "weights", "dev_files"),
            lambda: _recipe(data, base, [TAG] if job.tagged else []),
        )

    return learner.learn(text, recipe, side="source", say=say, quiet=quiet)


def _recipe(data: DataConfig, base: Config, symbols: list[str]) -> Recipe:
    """Return the recipe of the mixed text, whose subwords include the symbols."""
    training = base.training
    recipe = choose(measure(data), data, seed=training.seed, timed=training.max_minutes is not None)
    recipe.config.subwords.symbols = symbols
    return recipe


def mixed(
    real: DataConfig, sources: Sequence[Path], targets: Sequence[str], share: float | None
) -> DataConfig:
    """Add synthetic pairs to the real ones, from which alone a development set is split off.

    Raises `ConfigError` for a share that leaves nothing for the real pairs.
    """
    synthetic = DataConfig(source=[str(path) for path in sources], target=list(targets))
    if share is not None:
        if not 0 < share < 1:
            raise ConfigError(f"--share: expected a number between 0 and 1, found {share:g}")
        replay = Replay("--monolingual", synthetic, share)
        return with_replay(real, [replay], lambda data: measure(data).pairs)
    update = {
        "source": [*real.source, *synthetic.source],
        "target": [*real.target, *synthetic.target],
        "dev_files": len(real.source),
    }
    return real.model_copy(update=update)


def _check_direction(reverse: Runs, data: DataConfig) -> None:
    """Raise `ConfigError` if the run is known to translate from another language, or to one."""
    theirs = Config.of_run(reverse.runs[0], "translation").data.languages[0], reverse.target_language()
    ours = data.languages[1], data.languages[0]
    if any(own and other and own != other for own, other in zip(ours, theirs, strict=True)):
        expected, found = (
            " to ".join(code or "another language" for code in pair) for pair in (ours, theirs)
        )
        raise ConfigError(f"{reverse.runs[0]}: expected a run from {expected}, found one from {found}")

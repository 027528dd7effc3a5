"""Another run of the same model: a copy of what inference needs, averaged, in fewer bits, or with a shortlist."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import CheckpointError, ConfigError
from headwise.files import read_errors
from headwise.weights import mean, model_file, read_recipe, saved

if TYPE_CHECKING:
    from headwise.config import Config
    from headwise.engine.shortlist import Shortlist

_CANDIDATES, _COMMON = 192, 500  # target subwords of each source subword, and those in every list
_MODEL = "model.safetensors"
PRECISIONS = ("int8", "bfloat16")


def write_other_run(
    run: Path,
    out: Path,
    precision: str | None = None,
    last: int | None = None,
    *,
    shortlist: bool = False,
    others: Sequence[Path] = (),
) -> str:
    """Write a run directory with the configuration, subwords and vocabulary of `run`; return a sentence about it.

    The model is that of `run`, the average of its last checkpoints, or the mean of it and the models of `others`; its
    matrices are in `precision` if that isn't None. Training resumes from the original only. Raises `ConfigError` and
    `CheckpointError` where `run` lacks what is asked for, another run isn't of the same model, or `out` exists.
    """
    from headwise.config import Config
    from headwise.engine.shortlist import FILE as SHORTLIST
    from headwise.files import atomic_directory, check_new, write_bytes
    from headwise.images.prepared import FORMAT_FILE
    from headwise.text.preparation.labelled.examples import LABELS_FILE
    from headwise.text.reading.dictionary import FILE as DICTIONARY
    from headwise.text.tokens.pair_vocabulary import FILE as VOCABULARY
    from headwise.text.tokens.source_words import FILE as WORDS
    from headwise.text.tokens.vocabulary import CHARACTERS_FILE, TOKENIZER_FILE
    from headwise.weights import write_quantized

    if precision not in (None, *PRECISIONS):
        raise ConfigError(f"--precision: expected {' or '.join(PRECISIONS)} for --to run, found {precision!r}")
    if not (run / "config.yaml").is_file():
        raise CheckpointError(f"{run}: expected a run directory, found none")
    if last is not None and others:
        raise ConfigError("--average: expected it without --with, found both")
    check_new(out)
    config, said = Config.of_run(run), ""
    model = run / _MODEL if last is not None else model_file(run)
    with atomic_directory(out) as folder:
        text = ("spm*.model", "bpe.*.codes", VOCABULARY, CHARACTERS_FILE, TOKENIZER_FILE, LABELS_FILE)
        for pattern in ("config.yaml", *text, FORMAT_FILE, WORDS, DICTIONARY, SHORTLIST):
            for file in sorted(run.glob(pattern)):
                _copy(file, folder / file.name)
        if last is not None:
            model = folder / _MODEL
            said += f"; the average of steps {', '.join(map(str, _average(run, config, last, model)))}"
        if others:
            names = [file.name for pattern in text for file in run.glob(pattern)]
            model = folder / _MODEL
            write_bytes(model, _mean(run, config, others, names))
            said += f"; the mean with {', '.join(map(str, others))}"
        before = _megabytes(model)
        if precision is not None:
            write_quantized(model, folder / _MODEL, precision)
        elif model.parent != folder:
            _copy(model, folder / _MODEL)
        if shortlist:
            learned, subwords, covered = _learn_shortlist(run)
            learned.save(folder / SHORTLIST, subwords)
            said += f"; {SHORTLIST} of {covered}"
    size = _megabytes(out / _MODEL)
    return f"{out}: {size} in {precision}, from {before}{said}" if precision else f"{out}: {size}{said}"


def _copy(file: Path, copy: Path) -> None:
    with read_errors(file), open(file, "rb"):  # else the copy would be what can't be written
        pass
    shutil.copy(file, copy)


def _megabytes(file: Path) -> str:
    with read_errors(file):
        return f"{file.stat().st_size / 1e6:.1f} MB"


def _average(run: Path, config: Config, last: int, file: Path) -> list[int]:
    """Write the average of the last checkpoints; return their steps."""
    from headwise.checkpoints import SavedCheckpoints

    checkpoints = SavedCheckpoints(run)
    steps = checkpoints.to_average(last, config.training.checkpoint_every)
    if len(steps) < last:
        raise CheckpointError(
            f"{run}: expected at least {last} checkpoints to average, found {len(steps)}; average fewer, or train with "
            f"training.average_last={last}, which keeps as many"
        )
    checkpoints.write_average(steps, file, config.digest())
    return steps


def _mean(run: Path, config: Config, others: Sequence[Path], vocabulary: Sequence[str]) -> bytes:
    """Return a model file with the mean of the runs' parameters (Wortsman et al. 2022, "Model soups").

    Raises `ConfigError` for a run with another model or vocabulary, whose files have these names.
    """
    from headwise.config import Config
    from headwise.tasks.start import check_same_model

    for other in others:
        check_same_model(config, Config.of_run(other, config.task), f"--with: {other}")
        for name in vocabulary:
            with read_errors(other / name):
                if (other / name).read_bytes() != (run / name).read_bytes():
                    raise ConfigError(f"--with: expected {name} as {run} has it, found another in {other}")
    first = model_file(run)
    return saved(mean([first, *map(model_file, others)]), {"headwise": json.dumps(read_recipe(first), sort_keys=True)})


def _learn_shortlist(run: Path) -> tuple[Shortlist, str, str]:
    """Return a shortlist of the target subwords of each source, the digest of the subwords, and what it covers."""
    from headwise.config import Config
    from headwise.engine.shortlist import learn_shortlist
    from headwise.text.preparation.parallel import PreparedData
    from headwise.text.tokens.subwords import Subwords

    config = Config.of_run(run, "translation")
    if not (run / "prepared").is_dir():
        raise CheckpointError(
            f"{run}/prepared: expected the text that the run was trained with, found none; "
            f"`headwise train` makes it, and a copied run has to bring it along"
        )
    data = PreparedData.open(run / "prepared")
    subwords = Subwords.load(run, config.subwords)
    if data.subwords.digest() != subwords.digest():
        raise CheckpointError(
            f"{run}/prepared: expected text in the run's subwords ({subwords.digest()}), found others "
            f"({data.subwords.digest()})"
        )
    shortlist = learn_shortlist(
        data.train.source_table,
        data.train.target_table,
        subwords.source_size,
        subwords.target_size,
        candidates=_CANDIDATES,
        common=_COMMON,
        joint=subwords.joint,
    )
    covered = f"{shortlist}, from {len(data.train):,} pairs"
    if len(data.dev):
        length, share = shortlist.coverage(data.dev.source_table, data.dev.target_table)
        covered += (
            f"; in the development text a sentence's list has {length:.0f} of the {subwords.target_size:,} target "
            f"subwords, and {100 * share:.1f} % of those in its translation"
        )
    return shortlist, subwords.digest(), covered

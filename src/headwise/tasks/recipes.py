"""Training recipe from the corpus alone: chooses every hyperparameter from the corpus's size, with its reason.

The rules were tuned on corpora of 20 to 60 thousand pairs and equal the paper's recipe for millions of pairs
(docs/train.md). They are independent of the languages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from headwise.config import (
    AugmentConfig,
    BatchConfig,
    Config,
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)
from headwise.config.model import WITHOUT_LAYERS
from headwise.config.presets import preset
from headwise.text.reading.pairs import (
    CleaningReport,
    check_cleaning,
    clean_pairs,
    read_pairs,
    training_files,
)
from headwise.text.tokens.subwords import Subwords

_FILLED = 0.9  # share of `batch.tokens` in a batch that is tokens; the rest is padding or unused
# Adaptation of a trained run, measured in docs/train.md.
_RATE, _RATE_WIDTH = 2e-3, 128  # peak learning rate up to this d_model; above, it falls with its square
_SHORT_WARM_UP = 100
_SMALLEST_BATCH, _LARGEST_BATCH = 1024, 4096  # tokens
_LEAST_STEPS = 20  # between validations, and in an epoch if batches can be small enough for it
_MOST_STEPS = 1000  # between validations
_PLENTY = 1_500_000  # pairs, from which the paper's own recipe is used
_EPOCHS = 40  # at most
_PATIENCE = 4
_COOLDOWN = 0.2  # of a training with a time limit (docs/train.md)
# Text as people type it: what costs nothing on careful text, as measured in benchmarks/README.md.
_AS_TYPED = AugmentConfig(typos=0.05, no_punctuation=0.1)
_DISTINCT_WORDS_COUNTED = 2_000_000  # at most; the exact number matters only for tiny corpora


@dataclass
class CorpusSize:
    """Size of a corpus after cleaning: sentence pairs, characters and words."""

    pairs: int = 0
    target_words: int = 0
    target_characters: int = 0
    alphabet: set[str] = field(default_factory=set)  # distinct characters of both sides
    vocabulary: set[str] = field(default_factory=set)  # distinct words of both sides

    @property
    def target_tokens(self) -> float:
        """Estimated number of target subwords, EOS included.

        A subword vocabulary of the size chosen here gives about 1.15 subwords per word; in text without spaces, which
        is recognized by its long "words", it gives about one subword per two characters.
        """
        without_spaces = self.target_characters > 12 * self.target_words
        return self.pairs + (self.target_characters / 2 if without_spaces else 1.15 * self.target_words)


def measure(data: DataConfig) -> CorpusSize:
    """Read the training text once and count pairs, words and characters; raises `DataError` if it can't be read."""
    size = CorpusSize()
    for files in training_files(data):
        report = CleaningReport(limits=data.cleaning)
        for pair in clean_pairs(read_pairs(files, data.source_field, data.target_field), data.cleaning, report):
            size.pairs += 1
            words = pair.target.split()
            size.target_words += len(words)
            size.target_characters += len(pair.target)
            size.alphabet.update(pair.source, pair.target)
            if len(size.vocabulary) < _DISTINCT_WORDS_COUNTED:
                size.vocabulary.update(words, pair.source.split())
        check_cleaning(report, *files.paths)
    return size


@dataclass(frozen=True)
class Recipe:
    """A configuration, with one sentence of reason for each choice."""

    config: Config
    reasons: list[str]


def choose(
    size: CorpusSize,
    data: DataConfig,
    *,
    seed: int = 1,
    timed: bool = False,
    architecture: str = "transformer",
) -> Recipe:
    """Choose subwords, model, dropout, batch size and steps for a corpus.

    `timed`: whether training has a time limit, which may end it after only a tenth of the steps. Another `architecture`
    gets no choice that is refused for it.
    """
    subwords = subword_count(size)
    reasons = [
        f"subwords.size={subwords}: {len(size.alphabet):,} characters and 32·√{size.pairs:,} merges, "
        "one vocabulary for both languages"
    ]
    if size.pairs < 300_000:
        config = _small(size)
        reasons.append(f"model: 4+4 layers of width 128, as {size.pairs:,} pairs are soon learned by heart")
    elif size.pairs < _PLENTY:
        config = _medium(size)
        reasons.append(f"model: 6+6 layers of width 256, between tiny and base for {size.pairs:,} pairs")
    else:
        config = _large()
        reasons.append(f"model: the paper's base, for {size.pairs:,} pairs")
    config.data, config.training.seed = data.model_copy(deep=True), seed
    without_layers = architecture in WITHOUT_LAYERS
    if without_layers:
        config.model.norm = "post"  # the default, as the key is refused for these
    config.subwords.size = subwords
    training = config.training
    reasons += [
        f"dropout {config.model.dropout}, label smoothing {training.label_smoothing}: "
        f"{'strong' if config.model.dropout > 0.2 else 'moderate'} regularization for this much text",
        f"batch.tokens={config.batch.tokens}, {training.max_steps:,} steps: "
        f"about {training.max_steps * config.batch.tokens * _FILLED / size.target_tokens:.0f} passes over "
        f"{size.target_tokens:,.0f} target subwords",
    ]
    reasons += _as_typed(config, size)
    if timed and config.schedule.name == "linear":
        if not without_layers:
            config.optimizer = OptimizerConfig(name="muon")
            reasons.append("optimizer.name=muon: learns more than Adam where the time ends training early")
        config.schedule.name, config.schedule.cooldown = "inverse_sqrt", _COOLDOWN
        every = max(20, training.max_steps // 200)
        training.checkpoint_every, training.validate_every, training.average_last = every, 5 * every, 1
        reasons.append(
            f"schedule.name=inverse_sqrt, schedule.cooldown={_COOLDOWN}: better than linear where the time ends "
            "training early; the rate falls to zero in the last fifth, and no checkpoints are averaged"
        )
    return Recipe(Config.from_tree(config.model_dump()), reasons)


def _as_typed(config: Config, size: CorpusSize) -> list[str]:
    """Make a configuration robust to text as people type it, unless the user did, and return the reasons."""
    reasons = []
    if not config.data.augment.active and size.pairs < _PLENTY:
        config.data.augment = _AS_TYPED.model_copy()
        reasons.append(
            f"data.augment: {_AS_TYPED.typos:.0%} of the pairs get a typing error, {_AS_TYPED.no_punctuation:.0%} lose "
            "their full stop, as people type, which costs nothing on careful text"
        )
    if any(map(str.isupper, size.alphabet)):
        config.decoding.recase = True
        reasons.append("decoding.recase: lines in capitals or in lower case are read as ordinary text")
    return reasons


def with_subwords_of(recipe: Recipe, run: Path) -> Recipe:
    """Return a recipe with the subwords of a run (`subwords.copy_from`); raises `CheckpointError` if it has none."""
    subwords = Subwords.load(run)
    config = recipe.config.model_copy(deep=True)
    if not subwords.joint:
        config.model.share_embeddings = "target"
    copied = {"size": subwords.target_size, "copy_from": str(run), **subwords.options}
    config.subwords = config.subwords.model_copy(update=copied)
    reasons = [reason for reason in recipe.reasons if not reason.startswith("subwords")]
    return Recipe(config, [f"subwords.copy_from={run}: its {subwords.target_size:,} subwords", *reasons])


def subword_count(size: CorpusSize) -> int:
    """Return the vocabulary size: the characters and 32·√pairs merges, such as 4,500 merges for 20,000 pairs.

    From 1.3 million pairs on there are 37,000 merges, as in the paper. There are at most half as many merges as
    distinct words, so that tiny corpora work, too.
    """
    merges = min(32 * math.sqrt(size.pairs), len(size.vocabulary) / 2, 37_000)
    return max(16, math.ceil(merges) + len(size.alphabet))


def _steps(size: CorpusSize, tokens: int) -> int:
    """Return the optimizer steps of 120 epochs for the smallest corpora, down to about 25 for millions of pairs.

    There are at least 1,000. The paper trains for about 20 epochs.
    """
    passes = min(120.0, 20 + 55 * math.sqrt(30_000 / max(size.pairs, 1)))
    steps = passes * size.target_tokens / (_FILLED * tokens)
    return max(1_000, 100 * round(steps / 100))


def _linear(size: CorpusSize, model: ModelConfig, *, tokens: int, peak: float, warmup: int) -> Config:
    """Return a training of a pre-norm model that averages the last fifth of its steps and validates ten times."""
    model.norm = "pre"
    steps, average = _steps(size, tokens), 10
    every = max(10, round(steps / 5 / average))
    training = TrainingConfig(
        max_steps=steps,
        validate_every=every * math.ceil(steps / 10 / every),
        checkpoint_every=every,
        average_last=average,
        best_by="bleu",
    )
    schedule = ScheduleConfig(name="linear", peak=peak, warmup=min(warmup, steps // 5))
    return Config(model=model, batch=BatchConfig(tokens=tokens), schedule=schedule, training=training)


def _small(size: CorpusSize) -> Config:
    model = preset("tiny")
    model.d_ff, model.dropout = 512, 0.25
    return _linear(size, model, tokens=4096, peak=4e-3, warmup=600)


def _medium(size: CorpusSize) -> Config:
    model = preset("base")
    model.d_model, model.d_ff, model.heads, model.dropout = 256, 1024, 4, 0.2
    return _linear(size, model, tokens=12_500, peak=2e-3, warmup=2000)


def _large() -> Config:
    training = TrainingConfig(max_steps=100_000, validate_every=2000, checkpoint_every=1000, average_last=5)
    return Config(training=training)


def adapt(size: CorpusSize, start: Config, data: DataConfig, given: TrainingConfig, *, timed: bool = False) -> Recipe:
    """Choose the training options that adapt a trained run to new text, with its model and subwords (fine-tuning).

    Args:
        size: size of the new text, without text that is replayed.
        start: configuration of the trained run.
        data: the new configuration's files.
        given: the training options that the user gave: the run to begin from, and the seed.
        timed: whether training has a time limit.
    """
    tokens = min(start.batch.tokens, _LARGEST_BATCH)
    while tokens > _SMALLEST_BATCH and size.target_tokens < _LEAST_STEPS * _FILLED * tokens:
        tokens //= 2
    epoch = max(1, math.ceil(size.target_tokens / (_FILLED * tokens)))
    every = max(_LEAST_STEPS, min(epoch, _MOST_STEPS))
    peak = _RATE * min(1.0, (_RATE_WIDTH / start.model.d_model) ** 2)
    peak = float(f"{peak:.2g}")
    schedule = ScheduleConfig(name="inverse_sqrt", peak=peak, warmup=_SHORT_WARM_UP)
    source, target = (own or known for own, known in zip(data.languages, start.data.languages, strict=True))
    training = TrainingConfig(
        initialize_from=given.initialize_from,
        add_subwords=given.add_subwords,
        max_steps=max(_EPOCHS * epoch, 10 * every),
        validate_every=every,
        validate_share=0.2,
        checkpoint_every=every,
        patience=_PATIENCE,
        average_last=_PATIENCE + 1,
        best_by="bleu",
        label_smoothing=start.training.label_smoothing,
        r_drop=start.training.r_drop,
        seed=given.seed,
    )
    config = Config(
        model=start.model,
        data=data.model_copy(update={"source_language": source, "target_language": target}),
        subwords=start.subwords.model_copy(update={"copy_from": None}),  # they are taken from the run itself
        batch=BatchConfig(tokens=tokens),
        optimizer=start.optimizer.as_adam(),
        schedule=schedule,
        training=training,
        decoding=start.decoding,
    )
    reasons = [
        f"model and subwords: those of {given.initialize_from}",
        f"schedule.peak={peak:g}: half of a small model's first training, less for d_model above {_RATE_WIDTH}; "
        f"warm-up in {_SHORT_WARM_UP} steps, for Adam's moments only",
        f"batch.tokens={tokens}: {epoch:,} steps an epoch over {size.target_tokens:,.0f} target subwords of new text",
        f"training.patience={_PATIENCE}: ends after {_PATIENCE} validations, one every {every} steps, without a better "
        f"BLEU, as little text is soon learned by heart; at most {training.max_steps:,} steps",
        f"training.average_last={_PATIENCE + 1}: the best checkpoint and those after it",
    ]
    if timed:
        reasons.append("schedule.name=inverse_sqrt: may end at any step, as the time limit requires")
    return Recipe(Config.from_tree(config.model_dump()), reasons)

"""Translation: training task, validation by BLEU, and task description."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import Config, TrainingConfig
from headwise.data.plans import plan_batches
from headwise.decoding.engine import fastest_engine
from headwise.engine.options import SearchOptions
from headwise.engine.quality import KEY, QualityCurve
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.evaluation.metrics import find_metric
from headwise.evaluation.translation import bleu
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_weights, weightless
from headwise.shipped.runs import find_run
from headwise.tasks.base import Evaluation, EvaluationRequest, PreparedTask, TaskKind
from headwise.tasks.batches.pairs import Batch, BatchStream, make_batch
from headwise.tasks.scored_text import loss_scores
from headwise.tasks.start import check_subwords, find_start
from headwise.text.preparation.in_process import prepare
from headwise.text.preparation.parallel import AnyPrepared, open_corpora
from headwise.text.tokens.extension import check_extensible, old_pieces
from headwise.text.tokens.pair_vocabulary import Side
from headwise.text.tokens.subwords import PAD, SPECIAL, UNK, Subwords
from headwise.training.loss import LossSum, r_drop_cross_entropy, smoothed_cross_entropy

_STARTS = ("translation", "denoising")  # tasks whose runs a translation can be initialized from
_MARGIN = 10  # constant in the length limit of a validation's outputs (see `usual_lengths`)
_USUAL = 0.999  # share of the training pairs that satisfy the length limit
_MOST = 1_000_000  # lengths that the limit is computed from, at most


class TranslationTask(PreparedTask[AnyPrepared, Seq2Seq]):
    """Training task of translation."""

    def __init__(self, config: Config, prepared: AnyPrepared, model: Seq2Seq) -> None:
        super().__init__(config, prepared, model)
        start = find_start(config, _STARTS)
        self._initialized_from = {"initialized_from": start.checksum} if start else {}
        self._quality: QualityCurve | None = None  # of the final validation

    @property
    def dev_tokens(self) -> int:
        """The target subwords of the development set."""
        return int(self.prepared.dev.target_lengths.sum())

    def batches(self) -> BatchStream:
        """Return the training batches."""
        return BatchStream(
            self.prepared,
            self.config.batch.tokens,
            seed=self.config.training.seed,
            dropout=self.config.subwords.dropout,
            augment=self.config.data.augment,
            weights=self.config.data.weights,
            max_length=self.config.model.max_length,
            workers=self.config.data.workers,
        )

    def loss(self, batch: Batch) -> LossSum:
        """Return the loss of one batch; see `translation_loss`."""
        return translation_loss(self.model, batch, self.config.training)

    @torch.no_grad()
    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Return the loss (nats per target subword, without smoothing), perplexity and BLEU on the development set.

        BLEU is sacreBLEU's default on the development text. The final validation searches with the run's own options;
        earlier ones limit the output length (see `usual_lengths`).
        """
        if not len(self.prepared.dev):
            return {}
        scores = self._scores()
        if self.config.training.validate_bleu:
            scores |= self._bleu(self._search_options(final), final)
        return scores

    def measured(self) -> dict[str, Any]:
        """Return the expected chrF2 of translations by their probability, on the development set."""
        return {} if self._quality is None else {KEY: self._quality.to_json()}

    def _scores(self) -> dict[str, float]:
        """Return the loss and perplexity on the development set."""
        dev, nll, tokens = self.prepared.dev, 0.0, 0
        sources, targets = dev.source_lengths, dev.target_lengths
        size = max(self.config.batch.tokens, int(sources.max()), int(targets.max()))
        for pairs in plan_batches(sources, targets, size, seed=0, epoch=0):
            loss = self.loss(make_batch(dev, pairs))
            nll += loss.nll.item()
            tokens += loss.count
        return loss_scores(nll, tokens)

    def _search_options(self, final: bool) -> SearchOptions:
        decoding = self.config.decoding
        if final:
            return SearchOptions(**decoding.search)
        return SearchOptions(
            beam=1,
            alpha=decoding.alpha,
            extra_length=min(_MARGIN, decoding.extra_length),
            length_factor=self._length_factor,
        )

    def _bleu(self, options: SearchOptions, final: bool) -> dict[str, float]:
        subwords = self.prepared.subwords
        engine = fastest_engine(self.model, self.config.model, subwords)
        translator = Translator(engine, subwords, self.config.decoding)
        outputs = [each.outputs[0] for each in translator.translate(list(self.prepared.dev_source), options)]
        texts, references = [output.text for output in outputs], list(self.prepared.dev_target)
        if final:
            chrf = find_metric("chrf")
            scores = [chrf.combined(sentence) for sentence in chrf.statistics(texts, references).tolist()]
            self._quality = QualityCurve.fit([output.probability for output in outputs], scores)
        return {"bleu": bleu(texts, references).score}

    @cached_property
    def _length_factor(self) -> float:
        train = self.prepared.train.sample
        return usual_lengths(train.source_lengths, train.target_lengths, _MARGIN)

    def locate(self, batch: Batch) -> str:
        """Return the lines of a batch."""
        return self.prepared.train.locate(batch.rows)

    def identity(self) -> dict[str, str]:
        """Return the checksums of the text, of the subword model and of the initial model, if any."""
        return self.prepared.identity() | self._initialized_from


def translation_loss(model: Seq2Seq, batch: Batch, options: TrainingConfig) -> LossSum:
    """Return the label-smoothed cross-entropy, with R-Drop if configured, summed over target tokens."""
    smoothing = options.label_smoothing
    if options.r_drop > 0 and model.training:
        hidden, targets = hidden_states(model, batch, masks=2)
        total, nll = r_drop_cross_entropy(*model.projection(hidden), targets, smoothing, options.r_drop)
    else:
        hidden, targets = hidden_states(model, batch)
        total, nll = smoothed_cross_entropy(*model.projection(hidden), targets, smoothing)
    return LossSum(total, nll, batch.target_tokens)


def hidden_states(model: Seq2Seq, batch: Batch, masks: int = 1) -> tuple[Tensor, Tensor]:
    """Return the hidden states (masks · tokens, d_model) that predict the target tokens without padding, and these.

    With several dropout `masks`, the pairs are computed with all of them in one pass (Liang et al. 2021, section 2.2).
    """
    device = next(model.parameters()).device
    inputs = (part.to(device).repeat(masks, 1) for part in (batch.source, batch.source_mask, batch.target_input))
    targets = batch.target_output.to(device).flatten()
    real = (targets != PAD).nonzero().squeeze(1)
    rows = torch.cat([real + number * targets.numel() for number in range(masks)])
    return model(*inputs).flatten(0, 1)[rows], targets[real]


def usual_lengths(sources: NDArray[Any], targets: NDArray[Any], margin: int) -> float:
    """Return the lowest factor f with |Y| ≤ f · |X| + margin for 99.9 % of the pairs, and at least the mean |Y| / |X|.

    `sources` and `targets` are the lengths in subwords, EOS included; of very many, an evenly spaced sample is used.
    """
    step = -(-len(sources) // _MOST)
    sources, targets = sources[::step].astype(np.float64), targets[::step].astype(np.float64)
    needed = np.quantile((targets - margin) / sources, _USUAL)
    return float(max(needed, targets.sum() / sources.sum()))


class Translation(TaskKind):
    """Task description of translation."""

    name = "translation"
    scores = ("bleu",)
    after = 'try `echo "…" | headwise translate {run}`'

    def check(self, config: Config) -> None:
        """Raise `ConfigError` as for every task, and for subwords that can't be learned or come from two runs."""
        super().check(config)
        weightless(lambda: build_model(config.model, config.subwords.size, config.subwords.size))
        if config.subwords.kind == "characters":
            raise ConfigError("subwords.kind: expected bpe or imported for task translation, found characters")
        begun, copied = config.training.initialize_from, config.subwords.copy_from
        if config.subwords.kind == "imported" and begun is None and copied is None:
            raise ConfigError(
                "subwords.kind: expected bpe, or another run's vocabulary by training.initialize_from or "
                "subwords.copy_from, found imported"
            )
        if config.data.prepared:
            _check_prepared(config)
        if copied is not None and begun is not None:
            raise ConfigError(
                f"subwords.copy_from: expected nothing beside training.initialize_from, whose subwords are used, "
                f"found {copied!r}"
            )

    def signatures(self) -> dict[str, str]:
        """Return sacreBLEU's signature of BLEU."""
        return {"bleu": bleu(["a"], ["a"]).signature}  # of one reference, whatever the texts

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> AnyPrepared:
        start = find_start(config, _STARTS)
        subwords = start.subwords(config) if start else _copied_subwords(config)
        if subwords is not None:
            run = config.training.initialize_from or config.subwords.copy_from
            _check_symbols(config, subwords, f"subwords of {run}, which are used")
            if config.subwords.size != subwords.source_size:
                say(f"subwords: the {subwords.source_size:,} of {run}, whatever subwords.size says")
        if config.data.prepared:
            return _open_shards(config, subwords, expected)
        if config.training.add_subwords and subwords is not None:
            check_extensible(subwords)
        return prepare(
            config.data,
            config.subwords,
            directory,
            seed=config.training.seed,
            max_length=config.model.max_length,
            subwords=subwords,
            add_subwords=config.training.add_subwords,
            expected=expected,
            say=say,
        )

    def build(self, config: Config, prepared: AnyPrepared) -> Seq2Seq:  # noqa: D102
        subwords = prepared.subwords
        model = build_model(config.model, subwords.source_size, subwords.target_size)
        if start := find_start(config, _STARTS):
            old = start.subwords(config)
            load_weights(model, start.model, _new_rows(model, old, subwords))
        return model

    def task(self, config: Config, prepared: AnyPrepared, model: Seq2Seq) -> TranslationTask:  # noqa: D102
        return TranslationTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Raise `ConfigError`: translations are scored by options of their own of `headwise evaluate`."""
        raise ConfigError("evaluate: expected --source and --reference for a translation run, found none")


def _check_symbols(config: Config, subwords: Subwords, expected: str) -> None:
    """Raise `ConfigError` for a symbol that the subwords lack, which aren't learned now."""
    if not config.subwords.symbols:
        return
    processors = subwords.source_processor, subwords.target_processor
    sides = [set(side.id_to_piece(list(range(side.vocab_size())))) for side in processors]
    for symbol in config.subwords.symbols:
        if not all(symbol in pieces for pieces in sides):
            raise ConfigError(f"subwords.symbols: expected {expected}, found {symbol}, which is none")


def _check_prepared(config: Config) -> None:
    """Raise `ConfigError` for a key that has no meaning beside `data.prepared`."""
    given = {
        "data.source": config.data.source,
        "data.dev_source": config.data.dev_source,
        "data.augment": {key: share for key, share in config.data.augment.model_dump().items() if share},
        "subwords.dropout": config.subwords.dropout,
        "training.add_subwords": config.training.add_subwords,
    }
    for key, value in given.items():
        if value:
            raise ConfigError(f"{key}: expected nothing beside data.prepared, whose text is encoded, found {value}")


def _open_shards(config: Config, subwords: Subwords | None, expected: str | None) -> AnyPrepared:
    """Open the corpora of `data.prepared`.

    Raises `CheckpointError` if they are damaged, or not those that the run began with, and `ConfigError` if they don't
    have the given subwords.
    """
    data = open_corpora(config.data)
    _check_symbols(config, data.subwords, "subwords of data.prepared")
    if expected not in (None, data.checksum):
        raise CheckpointError(
            f"data.prepared: expected the corpora that the run was begun with (checksum {expected}), found others "
            f"({data.checksum}); use another run directory, or --restart to begin anew"
        )
    if subwords is not None and subwords.digest() != data.subwords.digest():
        raise ConfigError(
            f"data.prepared: expected corpora with the subwords of the model ({subwords.digest()}), found others "
            f"({data.subwords.digest()}); prepare them with --subwords-from"
        )
    if subwords is None:
        check_subwords(config, data.subwords, "data.prepared")
    return data


def _new_rows(model: Seq2Seq, old: Subwords, new: Subwords) -> dict[str, list[list[int]]]:
    """Return, for each parameter with a row per subword, the old subwords that each added one consists of."""
    if old.digest() == new.digest():
        return {}

    def known(side: Side) -> list[list[int]]:
        # A character that was unknown isn't like others that were: rows that began alike could hardly be told apart.
        return [[i for i in ids if i != UNK] for ids in old_pieces(old, new, side)]

    source = known("source")
    target = source if new.joint else known("target")
    ordinary = list(range(len(SPECIAL), old.target_size))
    rows = {
        "source_embedding.weight": source,
        "target_embedding.weight": target,
        "output_projection.weight": target,
        "logit_bias": [ids or ordinary for ids in target],
    }
    return {name: rows[name] for name, _ in model.named_parameters() if name in rows}


def _copied_subwords(config: Config) -> Subwords | None:
    """Return the subwords of the run `subwords.copy_from`; None if it isn't set.

    Raises `CheckpointError` if that run has none, or other options of `subwords`.
    """
    directory = config.subwords.copy_from
    return None if directory is None else Subwords.load(find_run(directory), config.subwords)

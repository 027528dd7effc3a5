"""Translation as a task for the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config import Config, TrainingConfig
from headwise.data.plans import plan_batches
from headwise.decoding.loading import fastest_engine
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.errors import ConfigError
from headwise.evaluation.translation import bleu
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_weights
from headwise.tasks.base import Evaluation, EvaluationRequest, Measured, TaskKind
from headwise.tasks.start import Start, find_start
from headwise.text.batches.pairs import Batch, BatchStream, make_batch
from headwise.text.datasets.parallel import PreparedData
from headwise.text.datasets.parallel_preparation import prepare
from headwise.text.tokens.subwords import EOS, PAD, Subwords
from headwise.text.tokens.vocabulary import Pieces
from headwise.training.loss import LossSum, r_drop_cross_entropy, smoothed_cross_entropy

_SAMPLE = 100  # pairs translated, at most, while the model knows next to nothing
_IGNORANT = 0.75  # it does while its loss is above this share of the entropy of single subwords
_MARGIN = 10  # subwords that any validation's output may have besides what its source's length makes usual
_USUAL = 0.999  # share of the training pairs whose lengths are usual
_MOST = 1_000_000  # lengths or subwords that such numbers are taken from


class TranslationTask:
    """Learn to translate prepared sentence pairs."""

    def __init__(self, config: Config, prepared: PreparedData, model: Seq2Seq) -> None:
        self.config = config
        self.prepared = prepared
        self.model = model
        start = find_start(config, ["denoising"])
        self._measured = Measured(model)
        self._begun_from = {"initialized_from": start.checksum} if start else {}

    @property
    def d_model(self) -> int:
        """Width in the paper's learning-rate formula."""
        return self.config.model.d_model

    def batches(self, rank: int, world: int) -> BatchStream:
        """Training batches of one rank."""
        return BatchStream(
            self.prepared,
            self.config.batch.tokens,
            seed=self.config.training.seed,
            rank=rank,
            world=world,
            dropout=self.config.subwords.dropout,
            weights=self.config.data.weights,
            max_length=self.config.model.max_length,
        )

    def loss(self, batch: Batch) -> LossSum:
        """Loss of one batch; see `translation_loss`."""
        return translation_loss(self.model, batch, self.config.training)

    @torch.no_grad()
    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Loss (nats per target subword, without smoothing), perplexity, and BLEU on the development data, if any.

        BLEU is sacreBLEU's default on the development text; `translated` says of how many pairs. The final one searches
        with the run's own options. Those before bound the length by what is usual in the training text (see
        `usual_lengths`). While the loss says that the model knows next to nothing, its translations have no end of
        their own: the final search is bounded like those before, and those take evenly spread pairs alone, always the
        same, and call it `sample_bleu`, as it doesn't compare with that of all.
        """
        dev = self.prepared.dev
        if not len(dev):
            return {}
        scores = self._measured.once("loss", self._loss)
        if self.config.training.validate_bleu:
            ignorant = scores["loss"] > _IGNORANT * self._ignorance
            options = self._search(final and not ignorant)
            rows = tuple(range(len(dev)))
            if ignorant and not final and len(rows) > _SAMPLE:
                rows = rows[:: -(-len(rows) // _SAMPLE)]
            scores |= self._measured.once((options, rows), lambda: self._bleu(options, rows))
        return scores

    def _loss(self) -> dict[str, float]:
        dev, nll, tokens = self.prepared.dev, 0.0, 0
        for rows in plan_batches(
            dev.source_lengths, dev.target_lengths, self._validation_tokens(), seed=0, epoch=0
        ):
            loss = self.loss(make_batch(dev, rows))
            nll += loss.nll.item()
            tokens += loss.count
        return {"loss": nll / tokens, "perplexity": math.exp(min(nll / tokens, 700.0))}

    def _search(self, final: bool) -> SearchOptions:
        decoding = self.config.decoding
        if final:
            return SearchOptions(beam=decoding.beam, alpha=decoding.alpha, extra_length=decoding.extra_length)
        return SearchOptions(
            beam=self.config.training.validate_beam,
            alpha=decoding.alpha,
            extra_length=min(_MARGIN, decoding.extra_length),
            length_factor=self._length_factor,
        )

    def _bleu(self, options: SearchOptions, rows: Sequence[int]) -> dict[str, float]:
        subwords = self.prepared.subwords
        engine = fastest_engine(self.model, self.config.model, subwords)
        translator = Translator(engine, subwords, self.config.decoding)
        found = translator.translate([self.prepared.dev_source[row] for row in rows], options)
        score = bleu([t.text for t in found], [self.prepared.dev_target[row] for row in rows]).score
        name = "bleu" if len(rows) == len(self.prepared.dev) else "sample_bleu"
        return {name: score, "translated": len(rows)}

    @cached_property
    def _length_factor(self) -> float:
        train = self.prepared.train
        return usual_lengths(train.source_lengths, train.target_lengths, _MARGIN)

    @cached_property
    def _ignorance(self) -> float:
        train = self.prepared.train
        ends = {EOS: len(train)}
        return entropy(train.target_table.values, ends)

    def _validation_tokens(self) -> int:
        longest = max(
            int(self.prepared.dev.source_lengths.max()), int(self.prepared.dev.target_lengths.max())
        )
        return max(self.config.batch.tokens, longest)

    def locate(self, batch: Batch) -> str:
        """Name the lines of a batch."""
        return self.prepared.train.locate(batch.rows)

    def identity(self) -> dict[str, str]:
        """Checksums of the text, of the subword model, and of what training started from."""
        return self.prepared.identity() | self._begun_from


def translation_loss(model: Seq2Seq, batch: Batch, options: TrainingConfig) -> LossSum:
    """Label-smoothed cross-entropy summed over target tokens, with R-Drop where training asks for it."""
    device = next(model.parameters()).device
    source, mask = batch.source.to(device), batch.source_mask.to(device)
    target_input = batch.target_input.to(device)
    targets = batch.target_output.to(device).flatten()
    real = (targets != PAD).nonzero().squeeze(1)
    weight, smoothing = model.output_weight, options.label_smoothing
    if options.r_drop > 0 and model.training:
        # Two dropout masks for every sentence, in one pass (Liang et al. 2021, section 2.2).
        hidden = model(source.repeat(2, 1), mask.repeat(2, 1), target_input.repeat(2, 1)).flatten(0, 1)
        hidden = hidden[torch.cat([real, real + targets.numel()])]
        total, nll = r_drop_cross_entropy(hidden, weight, targets[real], smoothing, options.r_drop)
    else:
        hidden = model(source, mask, target_input).flatten(0, 1)[real]  # (target tokens, d_model)
        total, nll = smoothed_cross_entropy(hidden, weight, targets[real], smoothing)
    return LossSum(total, nll, batch.target_tokens)


def usual_lengths(sources: NDArray[Any], targets: NDArray[Any], margin: int) -> float:
    """Return the lowest factor f with |Y| ≤ f · |X| + margin for 99.9 % of the pairs, and at least the mean |Y| / |X|.

    `sources` and `targets` are the lengths in subwords, end symbols included; of very many, evenly spread ones count.
    """
    step = -(-len(sources) // _MOST)
    sources, targets = sources[::step].astype(np.float64), targets[::step].astype(np.float64)
    needed = np.quantile((targets - margin) / sources, _USUAL)
    return float(max(needed, targets.sum() / sources.sum()))


def entropy(values: NDArray[Any], more: Mapping[int, int]) -> float:
    """Return the entropy of a text's subwords in nats: the loss of a model that knows how frequent each is, no more.

    `more` counts subwords that aren't in `values`; of a very long text, evenly spread parts count.
    """
    step = -(-len(values) // _MOST)
    counts = np.bincount(values[::step], minlength=max(more, default=0) + 1).astype(np.float64)
    for subword, count in more.items():
        counts[subword] += count / step
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


class Translation(TaskKind):
    """From sentences of one language to those of another."""

    name = "translation"
    unused = (
        "data.text",
        "data.dev_text",
        "data.dev_share",
        "subwords.kind",
        "model.segments",
        "model.prefix",
    )
    # Text may have moved: its checksum tells whether it is the same.
    may_change = (
        "data.source",
        "data.target",
        "data.dev_source",
        "data.dev_target",
        "training.validate_bleu",
        "training.validate_beam",
        "training.initialize_from",
    )
    scores = ("bleu",)
    after = 'try `echo "…" | headwise translate {run}`'

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedData:
        start = find_start(config, ["denoising"])
        return prepare(
            config.data,
            config.subwords,
            directory,
            seed=config.training.seed,
            max_length=config.model.max_length,
            subwords=_subwords(start, config) if start else None,
            expected=expected,
            say=say,
        )

    def build(self, config: Config, prepared: PreparedData) -> Seq2Seq:  # noqa: D102
        subwords = prepared.subwords
        model = build_model(config.model, subwords.source_size, subwords.target_size)
        if start := find_start(config, ["denoising"]):
            load_weights(model, start.model)
        return model

    def task(self, config: Config, prepared: PreparedData, model: Seq2Seq) -> TranslationTask:  # noqa: D102
        return TranslationTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Translations are scored against references, which `headwise evaluate` takes as options of its own."""
        raise ConfigError("evaluate: expected --source and --reference for a translation run, found none")


def _subwords(start: Start, config: Config) -> Subwords:
    """The subwords of the run to begin from; raises `ConfigError` where a translation can't be made of them."""
    if not isinstance(start.vocabulary, Pieces) or not config.subwords.joint:
        found = "characters" if config.subwords.joint else "subwords.joint=false"
        raise ConfigError(
            f"training.initialize_from: expected {start.run} to have subwords, for both languages alike, found {found}"
        )
    subwords = Subwords(start.vocabulary.content()[1], origin=str(start.run))
    if subwords.lowercases != config.subwords.lowercase:
        raise ConfigError(
            f"subwords.lowercase: expected {str(subwords.lowercases).lower()}, as in {start.run}, "
            f"found {str(config.subwords.lowercase).lower()}"
        )
    return subwords

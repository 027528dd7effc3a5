"""Translation as a task for the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from headwise.config import Config, TrainingConfig
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.errors import ConfigError
from headwise.evaluation.translation import bleu
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_weights
from headwise.tasks.base import Evaluation, EvaluationRequest, TaskKind
from headwise.tasks.start import Start, find_start
from headwise.text.batches import Batch, BatchStream, make_batch, plan_batches
from headwise.text.store import PreparedData, prepare
from headwise.text.subword import PAD, Subwords
from headwise.text.vocabulary import Pieces
from headwise.training.loss import LossSum, r_drop_cross_entropy, smoothed_cross_entropy


class TranslationTask:
    """Learn to translate prepared sentence pairs."""

    def __init__(self, config: Config, prepared: PreparedData, model: Seq2Seq) -> None:
        self.config = config
        self.prepared = prepared
        self.model = model
        start = find_start(config, ["denoising"])
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

        BLEU is sacreBLEU's default on the development text; the final one searches with the run's own beam.
        """
        dev = self.prepared.dev
        if not len(dev):
            return {}
        was_training = self.model.training
        self.model.eval()
        try:
            nll, tokens = 0.0, 0
            for rows in plan_batches(
                dev.source_lengths, dev.target_lengths, self._validation_tokens(), seed=0, epoch=0
            ):
                loss = self.loss(make_batch(dev, rows))
                nll += loss.nll.item()
                tokens += loss.count
            scores = {"loss": nll / tokens, "perplexity": math.exp(min(nll / tokens, 700.0))}
            if self.config.training.validate_bleu:
                scores["bleu"] = self._bleu(final)
        finally:
            self.model.train(was_training)
        return scores

    def _bleu(self, final: bool) -> float:
        decoding = self.config.decoding
        translator = Translator(self.model, self.prepared.subwords, decoding)
        beam = decoding.beam if final else self.config.training.validate_beam
        options = SearchOptions(beam=beam, alpha=decoding.alpha, extra_length=decoding.extra_length)
        translations = translator.translate(self.prepared.dev_source, options)
        return bleu([t.text for t in translations], self.prepared.dev_target).score

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

"""Base classes of tasks on labelled texts: an encoder-only model with an output head.

A subclass of `EncoderKind` defines the format of its examples, the head, which logits are trained on which targets, and
how predictions are computed and scored.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch
from torch import Tensor, nn

from headwise.characters import check_characters
from headwise.config import Config
from headwise.data.plans import plan_rows
from headwise.data.stream import PlannedStream
from headwise.errors import ConfigError
from headwise.models.build import build_encoder_only, load_encoder, load_trained, weightless
from headwise.models.output_heads import HeadedEncoder
from headwise.tasks.base import Evaluation, EvaluationRequest, Prediction, Predictor, PreparedTask, TaskKind
from headwise.tasks.batches.examples import RowBatch, make_rows, row_stream
from headwise.tasks.start import find_start
from headwise.text.preparation.labelled.examples import (
    Encoded,
    Example,
    Format,
    PreparedExamples,
    load_labels,
    prepare_examples,
)
from headwise.text.reading.lines import one_line
from headwise.text.tokens.loading import trained_vocabulary
from headwise.text.tokens.subwords import SPECIAL, UNK
from headwise.text.tokens.vocabulary import MASK, Vocabulary
from headwise.training.loss import LossSum, choice_loss


@dataclass(frozen=True)
class Tools:
    """A loaded run for prediction: a model in evaluation mode with its configuration, vocabulary and labels."""

    config: Config
    model: HeadedEncoder
    vocabulary: Vocabulary
    labels: list[str]


class EncoderKind(TaskKind, Generic[Example]):
    """Base class of descriptions of tasks on labelled texts."""

    @abstractmethod
    def format(self, config: Config) -> Format[Example]:
        """Return the format that reads and encodes examples."""

    @abstractmethod
    def head(self, config: Config, labels: int) -> nn.Module:
        """Build the output head."""

    @abstractmethod
    def logits(self, model: HeadedEncoder, batch: RowBatch) -> Tensor:
        """Return the logits of a batch, which is on the model's device: (batch, …)."""

    @abstractmethod
    def choices(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Select and flatten the predictions with a known target: logits (choices, options), targets (choices,)."""

    @abstractmethod
    def conclude(self, tools: Tools, examples: Sequence[Example], encoded: Encoded, logits: list[Tensor]) -> list[Any]:
        """Compute one prediction per example from the float32 logits of every encoded row."""

    @abstractmethod
    def score(
        self, config: Config, labels: Sequence[str], examples: Sequence[Example], predicted: list[Any]
    ) -> dict[str, Any]:
        """Score predictions; the result has a number for each name in `scores`."""

    @abstractmethod
    def describe(self, record: dict[str, Any]) -> list[str]:
        """Return the result of `score` as lines to print."""

    @abstractmethod
    def question(self, line: str, place: str) -> Example:
        """Read an input line of `headwise predict` as an example; raises `DataError` naming its place."""

    @abstractmethod
    def answer(self, tools: Tools, example: Example, predicted: Any) -> Prediction:
        """Return the output of `headwise predict` for an example."""

    def token_dropout(self, config: Config) -> float:
        """Return the share of training tokens that are replaced by <mask>, or <unk> if the vocabulary has no <mask>."""
        return 0.0

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        if config.model.max_length < 3:
            raise ConfigError(
                "model.max_length: expected at least 3, room for a token between begin and end, found "
                f"{config.model.max_length}"
            )
        weightless(lambda: build_encoder_only(config.model, config.subwords.size))

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedExamples:
        start = find_start(config)
        return prepare_examples(
            self.format(config),
            config.data,
            config.subwords,
            directory,
            longest=config.model.max_length,
            vocabulary=start.vocabulary if start else None,
            start=start.checksum if start else None,
            expected=expected,
            say=say,
        )

    def build(self, config: Config, prepared: PreparedExamples) -> HeadedEncoder:  # noqa: D102
        model = self.untrained(config, prepared.vocabulary.size, len(prepared.labels))
        if start := find_start(config):
            load_encoder(model, start.model)
        return model

    def task(self, config: Config, prepared: PreparedExamples, model: HeadedEncoder) -> ExamplesTask[Example]:  # noqa: D102
        return ExamplesTask(self, config, prepared, model)

    def load(self, run: Path, config: Config, *, device: str, precision: str) -> Tools:
        """Load a trained run; raises `CheckpointError` if it is damaged."""
        vocabulary, labels = trained_vocabulary(run), load_labels(run)
        model = load_trained(lambda: self.untrained(config, vocabulary.size, len(labels)), run, device, precision)
        return Tools(config, model, vocabulary, labels)

    def untrained(self, config: Config, size: int, labels: int) -> HeadedEncoder:
        """Build the untrained model for a vocabulary and a number of labels."""
        return HeadedEncoder(build_encoder_only(config.model, size), self.head(config, labels))

    def predict(self, tools: Tools, examples: Sequence[Example]) -> list[Any]:
        """Return the predictions of examples, in their order; those that were cut are counted in a warning."""
        longest = tools.config.model.max_length
        encoded = self.format(tools.config).encode(examples, tools.vocabulary, tools.labels, longest)
        if encoded.cut:
            message = f"{encoded.cut:,} examples were cut to fit model.max_length={longest}"
            warnings.warn(message, stacklevel=2)
        return self.conclude(tools, examples, encoded, run_rows(self, tools, encoded)[0])

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a trained run on files, or on its development set."""
        tools = self.load(request.run, request.config, device=request.device, precision=request.precision)
        form = self.format(request.config)
        if request.files:
            examples = form.read(request.files)
        else:
            dev = PreparedExamples.open(request.run / "prepared").dev
            examples = [form.example(**fields) for fields in dev]
            if not examples:
                raise ConfigError(f"evaluate: expected a file, as {request.run} has no development data, found none")
        predicted = self.predict(tools, examples)
        record = self.score(request.config, tools.labels, examples, predicted) | {"examples": len(examples)}
        outputs = [self.answer(tools, e, p).text for e, p in zip(examples, predicted, strict=True)]
        return Evaluation(record, [*self.describe(record), f"of {len(examples):,} examples"], outputs=outputs)

    def predictor(self, run: Path, config: Config, *, device: str, precision: str) -> Predictor:  # noqa: D102
        tools = self.load(run, config, device=device, precision=precision)

        def predict(lines: Sequence[tuple[str, str]]) -> list[Prediction]:
            # As files are read, in which no line end is part of a text.
            texts = [(one_line(check_characters(line, place)), place) for line, place in lines]
            examples = [self.question(text, place) for text, place in texts]
            return [self.answer(tools, e, p) for e, p in zip(examples, self.predict(tools, examples), strict=True)]

        return predict


class ExamplesTask(PreparedTask[PreparedExamples, HeadedEncoder], Generic[Example]):
    """Training task on labelled examples; `kind` is its description."""

    def __init__(
        self, kind: EncoderKind[Example], config: Config, prepared: PreparedExamples, model: HeadedEncoder
    ) -> None:
        super().__init__(config, prepared, model)
        self.kind = kind
        form = kind.format(config)
        self.dev: list[Example] = [form.example(**fields) for fields in prepared.dev]
        self.tools = Tools(config, model, prepared.vocabulary, prepared.labels)
        self._encoded = form.encode(self.dev, prepared.vocabulary, prepared.labels, config.model.max_length)

    def batches(self) -> PlannedStream[RowBatch]:
        """Return the training batches."""
        rate, store = self.kind.token_dropout(self.config), self.prepared.train
        vocabulary = self.prepared.vocabulary
        replacement = vocabulary.symbol(MASK) if MASK in vocabulary.symbols else UNK

        def make(_: int, rows: np.ndarray, random: np.random.Generator) -> RowBatch:
            ids = [store.ids[row].astype(np.int64) for row in rows]
            if rate:
                for row in ids:
                    row[(row >= len(SPECIAL)) & (random.random(len(row)) < rate)] = replacement
            return make_rows(ids, [store.targets[row] for row in rows], rows.tolist())

        return row_stream(
            lambda _: store.ids.lengths,
            make,
            self.config.batch.tokens,
            seed=self.config.training.seed,
            identity={"token_dropout": rate, **self.prepared.identity()},
        )

    def loss(self, batch: RowBatch) -> LossSum:
        """Return the label-smoothed cross-entropy, with R-Drop if configured, summed over the targets."""
        options = self.config.training
        batch = to_device(batch, self.device)
        logits, targets = self.kind.choices(self.kind.logits(self.model, batch), batch.targets)
        other = None
        if options.r_drop and self.model.training:
            other, _ = self.kind.choices(self.kind.logits(self.model, batch), batch.targets)
        return choice_loss(logits, targets, options.label_smoothing, other, options.r_drop)

    def _scores(self) -> dict[str, float]:
        """Return the loss (nats per target, without smoothing) and the metrics on the development set."""
        logits, loss = run_rows(self.kind, self.tools, self._encoded)
        predicted = self.kind.conclude(self.tools, self.dev, self._encoded, logits)
        record = self.kind.score(self.config, self.prepared.labels, self.dev, predicted)
        return {"loss": loss.nll.item() / loss.count, **{name: record[name] for name in self.kind.scores}}

    def locate(self, batch: RowBatch) -> str:
        """Return the lines of a batch."""
        return self.prepared.train.locate(batch.rows)


@torch.no_grad()
def run_rows(kind: EncoderKind[Any], tools: Tools, encoded: Encoded) -> tuple[list[Tensor], LossSum]:
    """Return the logits of every row, float32 on the CPU, and the loss of the rows with known targets."""
    device = next(tools.model.parameters()).device
    all_logits: list[Tensor] = [torch.empty(0)] * len(encoded.ids)
    total, count = torch.zeros(()), 0
    lengths = np.array([len(row) for row in encoded.ids])
    plan = plan_rows(lengths, tools.config.batch.tokens, seed=0, epoch=0) if encoded.ids else []
    for rows in (part.tolist() for part in plan):
        ids, targets = ([side[row] for row in rows] for side in (encoded.ids, encoded.targets))
        batch = to_device(make_rows(ids, targets, rows), device)
        logits = kind.logits(tools.model, batch)
        chosen, targets = kind.choices(logits, batch.targets)
        loss = choice_loss(chosen, targets)
        total, count = total + loss.nll.cpu(), count + loss.count
        for row, row_logits in zip(rows, logits.float().cpu(), strict=True):
            all_logits[row] = row_logits
    return all_logits, LossSum(total, total, max(count, 1))


def to_device(batch: RowBatch, device: torch.device) -> RowBatch:
    """Move a batch's tensors to a device."""
    return RowBatch(batch.ids.to(device), batch.mask.to(device), batch.targets.to(device), batch.rows)

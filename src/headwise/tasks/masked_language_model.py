"""Masked language modeling, the pretraining of encoder tasks: predict masked tokens (Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import Config
from headwise.data.plans import plan_rows
from headwise.data.stream import PlannedStream
from headwise.errors import ConfigError, DataError
from headwise.models.build import build_encoder_only, load_encoder, load_trained, weightless
from headwise.models.output_heads import HeadedEncoder, MaskedTokenHead
from headwise.tasks.base import Evaluation, EvaluationRequest, Prediction, Predictor, PreparedTask, TaskKind
from headwise.tasks.batches.examples import RowBatch, make_rows, row_stream
from headwise.tasks.batches.masking import Masking, cut_documents, cut_running
from headwise.tasks.encoder import to_device
from headwise.tasks.scored_text import check_duplicates, loss_scores, scored_text
from headwise.tasks.start import Start, find_start
from headwise.text.preparation.monolingual import PreparedText, prepare_text
from headwise.text.tokens.loading import trained_vocabulary
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import MASK, Vocabulary
from headwise.training.loss import LossSum, choice_loss

_CANDIDATES = 5  # predicted tokens to report for every mask
# The inputs and targets of a window, see `Masking.hide`.
_Masked = tuple[NDArray[np.int64], NDArray[np.int64]]


class MaskedModel:
    """A masked language model with its masking of tokens and its scores."""

    def __init__(self, config: Config, model: HeadedEncoder, vocabulary: Vocabulary) -> None:
        options = config.masked_language_model
        self.config, self.model = config, model
        ids = (vocabulary.symbol(MASK), vocabulary.ordinary, vocabulary.size)
        self.masking = Masking(*ids, options.share, options.masked, options.random)
        self.device = next(model.parameters()).device

    def spans(self, offsets: NDArray[np.int64], shift: int = 0) -> NDArray[np.int64]:
        """Return the starts and ends of a text's windows, (windows, 2); its lines begin at `offsets`."""
        if self.config.masked_language_model.lines_are_documents:
            return cut_documents(offsets, _window(self.config))
        return cut_running(int(offsets[-1]), _window(self.config), shift)

    def hide(self, ids: NDArray[Any], spans: NDArray[np.int64], random: np.random.Generator) -> list[_Masked]:
        """Return the windows of a text with some tokens masked."""
        return [self.masking.hide(ids[start:end].astype(np.int64), random) for start, end in spans.tolist()]

    def logits(self, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """Return the logits (masked tokens, vocabulary) and the targets (masked tokens,)."""
        batch = to_device(batch, self.device)
        chosen = batch.targets >= 0
        hidden = self.model(batch.ids, batch.mask)[chosen]
        return self.model.head(hidden, self.model.encoder.embedding.weight), batch.targets[chosen]

    @torch.no_grad()
    def score(self, ids: NDArray[Any], offsets: NDArray[np.int64]) -> dict[str, float]:
        """Return nats per masked token (`loss`), perplexity and accuracy in percent; the masking is always the same."""
        spans = self.spans(offsets)
        # Masked in the text's order, the same tokens are predicted however the windows are batched.
        windows = self.hide(ids, spans, np.random.default_rng(0))
        nll, correct, count = 0.0, 0, 0
        for rows in plan_rows(_lengths(spans), self.config.batch.tokens, seed=0, epoch=0):
            logits, targets = self.logits(_batch([windows[row] for row in rows], rows))
            nll += choice_loss(logits, targets).nll.item()
            correct += int((logits.argmax(dim=-1) == targets).sum())
            count += len(targets)
        return loss_scores(nll, count) | {"accuracy": 100.0 * correct / count}


class MaskedTask(PreparedTask[PreparedText, HeadedEncoder]):
    """Training task of masked language modeling."""

    def __init__(self, config: Config, prepared: PreparedText, model: HeadedEncoder, start: Start | None) -> None:
        super().__init__(config, prepared, model)
        self.start = start

    @property
    def masked_model(self) -> MaskedModel:
        """The model with its masking; made anew, as `with_model` replaces the model."""
        return MaskedModel(self.config, self.model, self.prepared.vocabulary)

    @property
    def dev_tokens(self) -> int:
        """The tokens of the development text that are predicted."""
        return round(self.config.masked_language_model.share * len(self.prepared.dev.ids))

    def batches(self) -> PlannedStream[RowBatch]:
        """Return the training batches; windows of running text are shifted randomly in every epoch."""
        store, seed, masked_model = self.prepared.train, self.config.training.seed, self.masked_model

        @lru_cache(maxsize=2)
        def spans(epoch: int) -> NDArray[np.int64]:
            shift = np.random.default_rng([seed, epoch]).integers(_window(self.config))
            return masked_model.spans(store.table.offsets, int(shift))

        def make(epoch: int, rows: NDArray[np.int64], random: np.random.Generator) -> RowBatch:
            batch_spans = spans(epoch)[rows]
            windows = masked_model.hide(store.ids, batch_spans, random)
            return _batch(windows, store.rows_at(batch_spans[:, 0]))

        return row_stream(
            lambda epoch: _lengths(spans(epoch)),
            make,
            self.config.batch.tokens,
            seed=seed,
            identity={"masking": self.config.masked_language_model.model_dump(), **self.identity()},
        )

    def loss(self, batch: RowBatch) -> LossSum:
        """Return the label-smoothed cross-entropy, summed over the masked tokens."""
        logits, targets = self.masked_model.logits(batch)
        return choice_loss(logits, targets, self.config.training.label_smoothing)

    def _scores(self) -> dict[str, float]:
        dev = self.prepared.dev
        return self.masked_model.score(dev.ids, dev.table.offsets)

    def locate(self, batch: RowBatch) -> str:
        """Return the lines of a batch."""
        return self.prepared.train.locate(batch.rows)

    def identity(self) -> dict[str, str]:
        """Return the checksums of the text, of the vocabulary and of the initial model, if any."""
        return self.prepared.identity() | ({"initialized_from": self.start.checksum} if self.start else {})


class MaskedLanguageModeling(TaskKind):
    """Task description of masked language modeling with an encoder-only Transformer."""

    name = "masked_language_model"
    scores = ("accuracy",)
    writes = False
    after = (
        f'try `echo "… {MASK} …" | headwise predict {{run}}`, '
        "or begin another task from it with training.initialize_from={run}"
    )

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        weightless(lambda: build_encoder_only(config.model, config.subwords.size))
        most = config.model.max_length - 2
        if _window(config) > most or most < 1:
            raise ConfigError(
                f"masked_language_model.window: expected at most {most}, as begin and end are part of "
                f"model.max_length, found {_window(config)}"
            )
        check_duplicates(config, documents=config.masked_language_model.lines_are_documents)

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedText:
        start = find_start(config)
        if start and MASK not in start.vocabulary.symbols:
            raise ConfigError(
                f"training.initialize_from: expected a run whose subwords know {MASK} (of task {self.name}, or begun "
                f"from one), found {start.run}"
            )
        return prepare_text(
            config.data,
            config.subwords,
            directory,
            documents=config.masked_language_model.lines_are_documents,
            symbols=(MASK,),
            vocabulary=start.vocabulary if start else None,
            expected=expected,
            say=say,
        )

    def build(self, config: Config, prepared: PreparedText) -> HeadedEncoder:  # noqa: D102
        model = build_masked(config, prepared.vocabulary.size)
        if start := find_start(config):
            load_encoder(model, start.model)
        return model

    def task(self, config: Config, prepared: PreparedText, model: HeadedEncoder) -> MaskedTask:  # noqa: D102
        return MaskedTask(config, prepared, model, find_start(config))

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a trained run on plain-text files, or on its development text: perplexity and accuracy."""
        config = request.config
        model, vocabulary = load_masked_model(request.run, config, device=request.device, precision=request.precision)
        documents = config.masked_language_model.lines_are_documents
        text = scored_text(request, vocabulary, documents=documents)
        scores = MaskedModel(config, model, vocabulary).score(text.ids, text.offsets)
        lines = [f"{name:<12} {value:8.3f}" for name, value in scores.items()]
        lines.append(f"of {len(text.ids):,} tokens, some of them hidden")
        return Evaluation(scores | {"tokens": len(text.ids)}, lines)

    def predictor(self, run: Path, config: Config, *, device: str, precision: str) -> Predictor:
        """Load a trained run that fills in `<mask>`; several masks in a line are predicted independently."""
        model, vocabulary = load_masked_model(run, config, device=device, precision=precision)

        def predict(lines: Sequence[tuple[str, str]]) -> list[Prediction]:
            texts = [_with_masks(line, place, vocabulary, config.model.max_length) for line, place in lines]
            return [_fill(line, ids, model, vocabulary) for (line, _), ids in zip(lines, texts, strict=True)]

        return predict


def _batch(windows: list[_Masked], rows: NDArray[np.int64]) -> RowBatch:
    return make_rows([inputs for inputs, _ in windows], [targets for _, targets in windows], rows.tolist())


def _window(config: Config) -> int:
    return config.masked_language_model.window or config.model.max_length - 2


def _lengths(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of ids of every window, BOS and EOS included."""
    return spans[:, 1] - spans[:, 0] + 2


def build_masked(config: Config, size: int) -> HeadedEncoder:
    """Build the untrained model for a vocabulary of this size."""
    return HeadedEncoder(build_encoder_only(config.model, size), MaskedTokenHead(config.model, size))


def load_masked_model(run: Path, config: Config, *, device: str, precision: str) -> tuple[HeadedEncoder, Vocabulary]:
    """Load a trained run, in evaluation mode; raises `CheckpointError` if it is damaged."""
    vocabulary = trained_vocabulary(run)
    return load_trained(lambda: build_masked(config, vocabulary.size), run, device, precision), vocabulary


def _around_masks(line: str, vocabulary: Vocabulary) -> list[str]:
    """Split a line at <mask>; a space before it is removed if it belongs to the word after it."""
    *before, last = line.split(MASK)
    if vocabulary.leads:
        before = [part.removesuffix(" ") for part in before]
    return [*before, last]


def encode_masked(line: str, vocabulary: Vocabulary) -> list[int]:
    """Encode a line, in which <mask> is one token, with the symbols that begin and end it."""
    first, *rest = _around_masks(line, vocabulary)
    ids = [BOS, *vocabulary.encode(first)]
    for part in rest:
        ids += [vocabulary.symbol(MASK), *vocabulary.encode(part)]
    return [*ids, EOS]


def _with_masks(line: str, place: str, vocabulary: Vocabulary, longest: int) -> list[int]:
    """Encode a line with <mask>; raises `DataError` if there is none or the line is too long."""
    if MASK not in line:
        raise DataError(f"{place}: expected {MASK} where a token is to be found, found none")
    ids = encode_masked(line, vocabulary)
    if len(ids) > longest:
        raise DataError(f"{place}: expected at most model.max_length={longest} tokens, found {len(ids)}")
    return ids


@torch.no_grad()
def _fill(line: str, ids: list[int], model: HeadedEncoder, vocabulary: Vocabulary) -> Prediction:
    """Replace every mask by its most probable token; the record has the most probable candidates."""
    tokens = torch.tensor([ids], device=next(model.parameters()).device)
    hidden = model(tokens)[tokens == vocabulary.symbol(MASK)]
    logits = model.head(hidden, model.encoder.embedding.weight).float()
    excluded = [*range(vocabulary.ordinary), vocabulary.line_end]
    logits[:, excluded] = -torch.inf
    best = logits.softmax(dim=-1).topk(min(_CANDIDATES, vocabulary.size - len(set(excluded))))
    candidates = [
        [{"token": vocabulary.decode([i]), "probability": p} for i, p in zip(numbers, probabilities, strict=True)]
        for numbers, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    filled, *rest = _around_masks(line, vocabulary)
    for number, part in zip(best.indices[:, 0].tolist(), rest, strict=True):
        filled = vocabulary.appended(filled, number) + part
    filled = filled.strip()
    return Prediction(filled, {"text": line, "filled": filled, "candidates": candidates})

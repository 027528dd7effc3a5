"""Denoising: reconstruct corrupted text with an encoder-decoder (T5, Raffel et al. 2020; BART, Lewis et al. 2020).

A translation run can be initialized from the pretrained model with `training.initialize_from`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config import Config
from headwise.data.stream import PlannedStream
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import SearchSentence
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import SYMBOLS
from headwise.errors import ConfigError, DataError
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_trained, weightless
from headwise.tasks.base import Evaluation, EvaluationRequest, PreparedTask, TaskKind
from headwise.tasks.batches.denoising import Damage, denoising_stream, make_pairs, symbol_names
from headwise.tasks.batches.pairs import Batch
from headwise.tasks.batches.windows import window_stream
from headwise.tasks.scored_text import loss_scores, scored_text
from headwise.tasks.translation import hidden_states, translation_loss
from headwise.text.preparation.monolingual import PreparedText, prepare_text
from headwise.text.tokens.loading import trained_vocabulary
from headwise.text.tokens.vocabulary import Vocabulary
from headwise.training.loss import LossSum, smoothed_cross_entropy

_SEED = 7  # of the corruption in validation and evaluation, which is always the same


class DenoisingTask(PreparedTask[PreparedText, Seq2Seq]):
    """Training task of denoising."""

    def __init__(self, config: Config, prepared: PreparedText, model: Seq2Seq) -> None:
        super().__init__(config, prepared, model)
        self.damage = damage_of(config, prepared.vocabulary)

    @property
    def dev_tokens(self) -> int:
        """The tokens of the development text that are reconstructed, of which infilling's targets have all."""
        options = self.config.denoising
        share = options.share if options.corruption == "spans" else 1.0
        return round(share * len(self.prepared.dev.ids))

    def batches(self) -> PlannedStream[Batch]:
        """Return the training batches; `batch.tokens` bounds the tokens before corruption."""
        windows = window_stream(
            self.prepared,
            window_of(self.config),
            self.config.batch.tokens,
            first=self.prepared.vocabulary.line_end,
            seed=self.config.training.seed,
        )
        return denoising_stream(windows, self.damage)

    def loss(self, batch: Batch) -> LossSum:
        """Return the label-smoothed cross-entropy, summed over target tokens."""
        return translation_loss(self.model, batch, self.config.training)

    def _scores(self) -> dict[str, float]:
        """Score the development text, always corrupted in the same places (see `score`)."""
        pairs = damaged(self.prepared.dev.ids, self.config, self.damage)
        return score(self.model, pairs, self.config.batch.tokens)

    def locate(self, batch: Batch) -> str:
        """Return the lines on which the windows of a batch begin."""
        train = self.prepared.train
        return train.locate(np.unique(train.rows_at(np.array(batch.rows, np.int64))))


class Denoising(TaskKind):
    """Task description of denoising: reconstruct text from which spans have been removed."""

    name = "denoising"
    scores = ("accuracy",)
    after = "try `headwise evaluate {run}`, or begin a translation with training.initialize_from={run}"

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        weightless(lambda: build_model(config.model, config.subwords.size, config.subwords.size))
        window, symbols = window_of(config), len(symbol_names(config.denoising, window_of(config)))
        if window < 2 or window + symbols + 1 > config.model.max_length:
            raise ConfigError(
                f"denoising.window: expected at least 2, and at most what leaves room in model.max_length="
                f"{config.model.max_length} for {symbols} symbols and the end, found {window}"
            )

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedText:
        symbols = symbol_names(config.denoising, window_of(config))
        prepared = prepare_text(
            config.data,
            config.subwords,
            directory,
            documents=False,
            symbols=symbols,
            expected=expected,
            say=say,
        )
        if len(prepared.dev.ids) == 1:
            raise DataError("development text: expected at least two tokens to damage, found 1")
        return prepared

    def build(self, config: Config, prepared: PreparedText) -> Seq2Seq:  # noqa: D102
        return build_model(config.model, prepared.vocabulary.size, prepared.vocabulary.size)

    def task(self, config: Config, prepared: PreparedText, model: Seq2Seq) -> DenoisingTask:  # noqa: D102
        return DenoisingTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Reconstruct the corrupted text of files or of the development set; outputs have one line per window.

        A line shows the corrupted input, the target and the output.
        """
        config, vocabulary = request.config, trained_vocabulary(request.run)
        model = load_trained(
            lambda: build_model(config.model, vocabulary.size, vocabulary.size),
            request.run,
            request.device,
            request.precision,
        )
        ids = scored_text(request, vocabulary, documents=False).ids
        if len(ids) < 2:
            raise DataError(f"{request.files[0]}: expected at least two tokens to damage, found {len(ids)}")
        pairs = damaged(ids, config, damage_of(config, vocabulary))
        scores = score(model, pairs, config.batch.tokens)
        options = SearchOptions(beam=1, max_length=config.model.max_length - 1, extra_length=config.model.max_length)
        sentences = [SearchSentence([*source.tolist(), SYMBOLS.eos], options) for source, _ in pairs]
        decoded = PyTorchEngine(model).search(sentences, SYMBOLS)
        exact = sum(hypotheses[0].tokens == tuple(t) for hypotheses, (_, t) in zip(decoded, pairs, strict=True))
        outputs = [
            " → ".join(show(vocabulary, ids) for ids in (source, target, hypotheses[0].tokens))
            for (source, target), hypotheses in zip(pairs, decoded, strict=True)
        ]
        record = {**scores, "exact": 100.0 * exact / len(pairs), "windows": len(pairs)}
        lines = [
            f"loss        {scores['loss']:8.4f} nats per token",
            f"perplexity  {scores['perplexity']:8.4f}",
            f"accuracy    {scores['accuracy']:8.2f} % of tokens, each given those before it",
            f"exact       {record['exact']:8.2f} % of {len(pairs):,} windows restored without an error",
        ]
        return Evaluation(record, lines, outputs=outputs)


def window_of(config: Config) -> int:
    """Return the number of tokens in a window, which are corrupted together."""
    if config.denoising.window is not None:
        return config.denoising.window
    window = config.model.max_length - 2
    while window > 2 and window + len(symbol_names(config.denoising, window)) + 1 > config.model.max_length:
        window -= 1
    return window


def damage_of(config: Config, vocabulary: Vocabulary) -> Damage:
    """Return the corruption function of a configuration, with the sentinels or `<mask>` of a vocabulary."""
    names = symbol_names(config.denoising, window_of(config))
    return Damage(config.denoising, tuple(vocabulary.symbol(name) for name in names))


def damaged(ids: NDArray[np.integer], config: Config, damage: Damage) -> list[tuple[NDArray[np.int64], ...]]:
    """Corrupt a whole text window by window, always in the same places; return (input, target) pairs.

    A last window of one token is left out.
    """
    random, window = np.random.default_rng(_SEED), window_of(config)
    windows = [np.asarray(ids[start : start + window], np.int64) for start in range(0, len(ids), window)]
    return [damage(part, random) for part in windows if len(part) > 1]


@torch.no_grad()
def score(model: Seq2Seq, pairs: Sequence[tuple[NDArray[np.int64], ...]], tokens: int) -> dict[str, float]:
    """Return nats per target token (`loss`), perplexity, and the percentage of tokens predicted right (`accuracy`)."""
    batch_size = max(1, tokens // max(len(part) + 1 for pair in pairs for part in pair))
    nll, correct, count = 0.0, 0, 0
    for start in range(0, len(pairs), batch_size):
        batch = [(source, target) for source, target in pairs[start : start + batch_size]]
        hidden, targets = hidden_states(model, make_pairs(batch, []))
        nll += smoothed_cross_entropy(*model.projection(hidden), targets)[1].item()
        correct += int((model.project(hidden).argmax(dim=-1) == targets).sum())
        count += len(targets)
    return loss_scores(nll, count) | {"accuracy": 100.0 * correct / count}


def show(vocabulary: Vocabulary, ids: Sequence[int] | NDArray[np.int64]) -> str:
    """Return the text of ids as one line, with special symbols by their names."""
    pieces = [vocabulary.piece(int(i)) if i < vocabulary.ordinary else vocabulary.decode([int(i)]) for i in ids]
    return "".join(pieces).replace("\n", "\\n")

"""Language modeling: predict each token of a text from the tokens before it (Radford et al. 2018, section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config import Config
from headwise.data.stream import PlannedStream
from headwise.decoding.generation import Generator, first_token, load_language_model
from headwise.engine.options import GenerationOptions
from headwise.errors import ConfigError
from headwise.models.build import build_decoder_only, weightless
from headwise.models.decoder_only import DecoderOnly
from headwise.tasks.base import Evaluation, EvaluationRequest, Prediction, Predictor, PreparedTask, TaskKind
from headwise.tasks.batches.windows import (
    WindowBatch,
    make_windows,
    rows_of,
    scoring_windows,
    window_stream,
)
from headwise.tasks.scored_text import check_duplicates, loss_scores, scored_text
from headwise.text.preparation.monolingual import PreparedText, prepare_text
from headwise.text.tokens.subwords import UNK
from headwise.training.loss import LossSum, smoothed_cross_entropy


@torch.no_grad()
def text_nll(model: DecoderOnly, config: Config, ids: NDArray[Any], first: int) -> float:
    """Return the negative log-likelihood of a text in nats; its first token is predicted from the token `first`.

    Every token is scored once, in windows as the configuration says (see `scoring_windows`).
    """
    device = next(model.parameters()).device
    length = min(_window(config), len(ids))
    batch_size = max(1, config.batch.tokens // _window(config))
    windows = list(scoring_windows(len(ids), length, _stride(config)))
    nll = 0.0
    for index in range(0, len(windows), batch_size):
        starts, begins = np.array(windows[index : index + batch_size]).T
        batch = make_windows(ids, starts, length, first)
        scored = torch.from_numpy(starts[:, None] + np.arange(length) >= begins[:, None])  # (batch, time)
        hidden = model(batch.inputs.to(device))[scored.to(device)]
        targets = batch.outputs[scored].to(device)
        nll += smoothed_cross_entropy(*model.projection(hidden), targets)[1].item()
    return nll


def text_scores(nll: float, tokens: int, characters: int) -> dict[str, float]:
    """Return nats per token (`loss`), perplexity per token, and bits per character."""
    return loss_scores(nll, tokens) | {"bits_per_character": nll / math.log(2) / characters}


class LanguageModelTask(PreparedTask[PreparedText, DecoderOnly]):
    """Training task of language modeling."""

    def __init__(self, config: Config, prepared: PreparedText, model: DecoderOnly) -> None:
        super().__init__(config, prepared, model)
        self.first = first_token(config, prepared.vocabulary)

    @property
    def dev_tokens(self) -> int:
        """The tokens of the development text."""
        return len(self.prepared.dev.ids)

    def batches(self) -> PlannedStream[WindowBatch]:
        """Return the training batches."""
        return window_stream(
            self.prepared,
            _window(self.config),
            self.config.batch.tokens,
            first=self.first,
            seed=self.config.training.seed,
            prefix=self.config.model.prefix,
        )

    def loss(self, batch: WindowBatch) -> LossSum:
        """Return the label-smoothed cross-entropy, summed over the tokens to predict."""
        inputs, outputs, predicted = (
            batch.inputs.to(self.device),
            batch.outputs.to(self.device),
            batch.predicted,
        )
        if batch.prefix is None or predicted is None:
            hidden, targets = self.model(inputs).flatten(0, 1), outputs.flatten()
        else:
            chosen = predicted.to(self.device)
            hidden, targets = self.model(inputs, batch.prefix.to(self.device))[chosen], outputs[chosen]
        smoothing = self.config.training.label_smoothing
        total, nll = smoothed_cross_entropy(*self.model.projection(hidden), targets, smoothing)
        return LossSum(total, nll, batch.target_tokens)

    def _scores(self) -> dict[str, float]:
        """Return nats per token, perplexity and bits per character of the development text."""
        dev = self.prepared.dev
        nll = text_nll(self.model, self.config, dev.ids, self.first)
        return text_scores(nll, len(dev.ids), dev.characters)

    def locate(self, batch: WindowBatch) -> str:
        """Return the lines of a batch."""
        return self.prepared.train.locate(rows_of(self.prepared.train, batch))


class LanguageModeling(TaskKind):
    """Task description of language modeling, by characters or subwords, with a decoder-only Transformer."""

    name = "language_model"
    writes = False
    after = "try `headwise predict {run} --prompt TEXT`"

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        weightless(lambda: build_decoder_only(config.model, config.subwords.size))
        window, stride = _window(config), _stride(config)
        if window > config.model.max_length:
            raise ConfigError(
                f"language_model.window: expected at most model.max_length={config.model.max_length}, found {window}"
            )
        if stride > window:
            raise ConfigError(f"language_model.stride: expected at most the window of {window} tokens, found {stride}")
        check_duplicates(config, documents=config.language_model.lines_are_documents)

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedText:
        documents = config.language_model.lines_are_documents
        return prepare_text(config.data, config.subwords, directory, documents=documents, expected=expected, say=say)

    def build(self, config: Config, prepared: PreparedText) -> DecoderOnly:  # noqa: D102
        return build_decoder_only(config.model, prepared.vocabulary.size)

    def task(self, config: Config, prepared: PreparedText, model: DecoderOnly) -> LanguageModelTask:  # noqa: D102
        return LanguageModelTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a trained run on plain-text files, or on its development text: perplexity and bits per character."""
        config = request.config
        model, vocabulary = load_language_model(request.run, config, device=request.device, precision=request.precision)
        text = scored_text(request, vocabulary, documents=config.language_model.lines_are_documents)
        nll = text_nll(model, config, text.ids, first_token(config, vocabulary))
        tokens, characters, length, stride = len(text.ids), text.characters, _window(config), _stride(config)
        scores = text_scores(nll, tokens, characters) | {"nats_per_character": nll / characters}
        counts = {"tokens": tokens, "characters": characters, "window": length, "stride": stride}
        lines = [f"{name.replace('_', ' '):<20} {value:8.4f}" for name, value in scores.items()]
        lines.append(f"of {tokens:,} tokens, {characters:,} characters; windows of {length}, stride {stride}")
        unknown = int(np.count_nonzero(text.ids == UNK))
        notes = [f"{unknown:,} tokens are unknown; each is predicted as one symbol"] if unknown else []
        return Evaluation({**scores, **counts, "unknown": unknown}, lines, notes)

    def predictor(self, run: Path, config: Config, *, device: str, precision: str) -> Predictor:  # noqa: D102
        return continuing(Generator.load(run, device=device, precision=precision), GenerationOptions())


def continuing(generator: Generator, options: GenerationOptions) -> Predictor:
    """Return a predictor that continues each line."""

    def predict(lines: Sequence[tuple[str, str]]) -> list[Prediction]:
        texts = [(prompt, prompt + generator.generate(prompt, options, origin=place)[0]) for prompt, place in lines]
        return [Prediction(text, {"prompt": prompt, "text": text}) for prompt, text in texts]

    return predict


def _window(config: Config) -> int:
    return config.language_model.window or config.model.max_length


def _stride(config: Config) -> int:
    return config.language_model.stride or _window(config)

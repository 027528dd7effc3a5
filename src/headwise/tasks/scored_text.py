"""The plain text that `headwise evaluate` scores, and the loss of a text as scores.

The text is that of files, encoded as for training, or a run's development text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.tasks.base import EvaluationRequest
from headwise.text.preparation.monolingual import PreparedText
from headwise.text.reading.plain import LineReport, read_text
from headwise.text.tokens.subwords import EOS
from headwise.text.tokens.vocabulary import Vocabulary


def loss_scores(nll: float, tokens: int) -> dict[str, float]:
    """Return nats per token (`loss`) and perplexity, from the negative log-likelihood of tokens in nats."""
    loss = nll / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}


def check_duplicates(config: Config, *, documents: bool) -> None:
    """Raise `ConfigError` if duplicate lines are dropped from text whose lines aren't `documents` but run on."""
    if config.data.cleaning.drop_duplicates and not documents:
        raise ConfigError(
            "data.cleaning.drop_duplicates: expected false in running text, found true; "
            f"{config.task}.lines_are_documents=true makes each line a text of its own"
        )


@dataclass(frozen=True)
class ScoredText:
    """The ids of a text, where its lines begin in them (with the end of the last), and its number of characters."""

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]
    characters: int


def scored_text(request: EvaluationRequest, vocabulary: Vocabulary, *, documents: bool) -> ScoredText:
    """Return the text of the request's files, whose lines may be `documents`, or else the run's development text.

    Raises `ConfigError` without either, and `DataError` for a file without text.
    """
    if not request.files:
        dev = PreparedText.open(request.run / "prepared").dev
        if not len(dev):
            raise ConfigError(f"evaluate: expected a file, as {request.run} has no development text, found none")
        return ScoredText(dev.ids, dev.table.offsets, dev.characters)
    report, end = LineReport(documents), [EOS] if documents else []
    lines = [
        np.array([*vocabulary.encode(line.text), *end], np.int64)
        for file in request.files
        for line in read_text(file, report)
    ]
    return ScoredText(np.concatenate(lines), np.cumsum([0, *map(len, lines)]), report.characters)

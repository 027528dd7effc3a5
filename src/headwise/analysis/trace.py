"""Trace of a translation: the data that the command line, the plots and the web page show.

A `Trace` holds the source, the search (its hypotheses and the whole beam tree) and a `ForcedDecoding` pass over one
hypothesis: forced decoding that records attention, the tokens' log-probabilities and the alternatives at each step.
Log-probabilities are natural logarithms, weights are float32; `to_json` has the schema of docs/look-inside.md.
`headwise.analysis.tracer.Tracer` makes traces.

Rows and columns: at step i the decoder's input is target token i-1 (`<s>` at step 0) and it predicts token i. Row i of
the decoder's self-attention and of the cross-attention is that step, so a row is labeled either by the input token or
by the predicted one; columns of the decoder's self-attention are the input tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.interventions import Intervention, Part
from headwise.analysis.json_arrays import as_json, rounded
from headwise.errors import ConfigError

SCHEMA = 1  # version of `Trace.to_json`; it changes when a field's meaning changes


@dataclass(frozen=True)
class Side:
    """The source or the target side of a pair, as text, subwords and words.

    Attributes:
        text: the detokenized text.
        ids: ids of the subwords; the end symbol, if present, is the last.
        pieces: the subwords as strings, `▁` for a space.
        words: the words, separated by spaces; the end symbol is a word of its own.
        word_of: for each subword, the index of its word, from 0.
        unknown: indices of the words that the vocabulary has no subwords for (see `headwise.text.tokens.unknown`).
    """

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int, ...]
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True)
class AttentionMap:
    """One part's weights, (layers, heads, rows, columns), with the labels of rows and columns."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Alternative:
    """A candidate for the next token at a step, and its log-probability."""

    id: int
    piece: str
    log_probability: float


@dataclass(frozen=True)
class ForcedDecoding:
    """Record of the forced decoding of one target.

    Attributes:
        target: the forced target; without the end symbol if the hypothesis isn't finished.
        reads: the decoder's input: `<s>` and the target without its last token.
        log_probabilities: log-probability of each token of the target.
        alternatives: the likeliest tokens at each step, best first.
        log_probability: log-probability of the whole target.
        length_penalty: ((5 + |Y|) / 6)^alpha.
        score: log_probability / length_penalty.
        attention: weights (layers, heads, rows, columns) of each part; a part that the model lacks is missing.
            encoder: rows and columns are source tokens. decoder: steps × input tokens. cross: steps × source tokens.
    """

    target: Side
    reads: Side
    log_probabilities: tuple[float, ...]
    alternatives: tuple[tuple[Alternative, ...], ...]
    log_probability: float
    length_penalty: float
    score: float
    attention: dict[Part, NDArray[np.float32]]


@dataclass(frozen=True)
class Node:
    """A hypothesis of the beam tree: the search's scores (see `BeamNode`), its last subword, and its rank.

    `rank` counts from 0 if the hypothesis is in the n-best list, and is None otherwise.
    """

    parent: int | None
    token: int
    piece: str
    token_log_probability: float
    log_probability: float
    length: int
    length_penalty: float
    score: float
    finished: bool
    rank: int | None


@dataclass(frozen=True)
class Ranked:
    """A hypothesis of the n-best list: its node in the beam tree, its text and its scores."""

    node: int
    text: str
    ids: tuple[int, ...]  # without the end symbol
    log_probability: float
    length_penalty: float
    score: float
    token_log_probabilities: tuple[float, ...]  # the end symbol's is the last


@dataclass(frozen=True)
class Trace:
    """A translation with its search and its attention; `forced` is the requested hypothesis, by default the best one.

    An empty source has no hypotheses, no tree and `forced` None. `notes` report truncation and unknown words.
    """

    source: Side
    forced: ForcedDecoding | None
    hypotheses: tuple[Ranked, ...]
    tree: tuple[Node, ...]
    beam: int
    alpha: float
    interventions: tuple[Intervention, ...]
    architecture: str
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def path(self, node: int) -> tuple[int, ...]:
        """Return the ids of a node's hypothesis, the end symbol included if it is finished."""
        ids: list[int] = []
        current: int | None = node
        while current is not None:
            ids.append(self.tree[current].token)
            current = self.tree[current].parent
        return tuple(reversed(ids))

    def attention_map(self, part: Part, *, words: bool = False) -> AttentionMap:
        """Return one part's weights over tokens or, with `words`, over words: sum over columns, mean over rows.

        Rows of the cross-attention are labeled by the predicted token. Raises `ConfigError` for a missing part.
        """
        if self.forced is None:
            raise ConfigError("expected a text to look into, found an empty one")
        if part not in self.forced.attention:
            available = ", ".join(self.forced.attention) or "none"
            raise ConfigError(f"part: expected one that this {self.architecture} model has ({available}), found {part}")
        rows = {"encoder": self.source, "decoder": self.forced.reads, "cross": self.forced.target}[part]
        columns = self.forced.reads if part == "decoder" else self.source
        weights = self.forced.attention[part]
        if not words:
            return AttentionMap(rows.pieces, columns.pieces, weights)
        return AttentionMap(rows.words, columns.words, join_words(weights, rows.word_of, columns.word_of))

    def to_json(self, array: Callable[[NDArray], Any] = rounded) -> dict[str, Any]:
        """Return JSON-serializable values, `attention` as `array` makes it; the schema is in docs/look-inside.md."""
        content = {
            "schema": SCHEMA,
            "architecture": self.architecture,
            "beam": self.beam,
            "alpha": self.alpha,
            "interventions": [str(intervention) for intervention in self.interventions],
            "notes": self.notes,
            "source": self.source,
            "forced": self.forced,
            "hypotheses": self.hypotheses,
            "tree": self.tree,
        }
        return as_json(content, array)

    def dumps(self) -> str:
        """Return `to_json` as one line of JSON."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)


def join_words(
    weights: NDArray[np.float32], row_words: Sequence[int], column_words: Sequence[int]
) -> NDArray[np.float32]:
    """Aggregate token weights into words: sum over columns, mean over rows (Clark et al. 2019).

    `row_words` and `column_words` are the indices of the tokens' words.
    """
    rows, columns = (
        np.eye(max(words) + 1, dtype=np.float32)[list(words)] for words in (row_words, column_words)
    )  # (tokens, words) each
    return (rows / rows.sum(0)).T @ weights @ columns

"""The one trace of a translation: what command line, pictures and web page show.

A `Trace` holds the source, the search (its hypotheses and the whole beam tree) and a `Forced` reading of one
hypothesis: the model is made to say it while its attention, its tokens' log-probabilities and the alternatives are
recorded. All numbers are natural logarithms and float32 weights; `to_json` gives the schema of docs/analysis.md.
`headwise.analysis.tracer.Tracer` makes them.

What stands where: at step i the decoder reads target token i-1 (`<s>` at step 0) and predicts token i. Row i of the
decoder's self-attention and of the cross-attention is that step, so a row is named either by the token it reads or by
the one it predicts; columns of the decoder's self-attention are the tokens read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.interventions import Intervention, Part
from headwise.errors import ConfigError

SCHEMA = 1  # of `Trace.to_json`; it changes when a field changes its meaning
_DIGITS = 6  # of a weight in JSON: a row of 128 still sums to 1 within 1e-4


@dataclass(frozen=True)
class Side:
    """A text as the model reads or says it.

    Attributes:
        text: detokenized.
        ids: of its subwords; the end symbol last, where it is there.
        pieces: the subwords as they are written, `▁` for a space.
        words: what spaces separate; the end symbol is a word of its own.
        word_of: number of the word, from 0, that each piece belongs to.
        unknown: numbers of the words that hold something the model never saw on this side
            (see `headwise.text.tokens.seen`).
    """

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int, ...]
    unknown: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid:
    """One part's weights with names for rows and columns; weights (layers, heads, rows, columns)."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Alternative:
    """A token that the model could have said instead, and its log-probability there."""

    id: int
    piece: str
    log_probability: float


@dataclass(frozen=True)
class Forced:
    """What the model does while it is made to say one hypothesis.

    Attributes:
        target: what it says; without the end symbol where the hypothesis didn't end.
        reads: what the decoder reads at each step: `<s>` and the target without its last token.
        log_probabilities: of each token of the target.
        alternatives: the likeliest tokens at each step, best first.
        log_probability: of the whole target.
        length_penalty: ((5 + |Y|) / 6)^alpha.
        score: log_probability / length_penalty.
        attention: weights (layers, heads, rows, columns) of each part; a part that the model lacks is missing.
            encoder: rows and columns are source tokens. decoder: steps by tokens read. cross: steps by source tokens.
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
    """A hypothesis of the beam tree: the search's numbers (see `BeamNode`), its last piece, and its rank.

    `rank` counts from 0 where the hypothesis is one of the n best, and is None elsewhere.
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
    """One of the n best: its place in the tree, its text and scores."""

    node: int
    text: str
    ids: tuple[int, ...]  # without the end symbol
    log_probability: float
    length_penalty: float
    score: float
    token_log_probabilities: tuple[float, ...]  # the end symbol's last


@dataclass(frozen=True)
class Trace:
    """A translation with all that led to it; `forced` reads the hypothesis asked for, the best unless told otherwise.

    An empty source has no hypotheses, no tree and `forced` None. `notes` say what was left out.
    """

    source: Side
    forced: Forced | None
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
        """Return the ids of a node's hypothesis, the end symbol included where it is finished."""
        ids: list[int] = []
        place: int | None = node
        while place is not None:
            ids.append(self.tree[place].token)
            place = self.tree[place].parent
        return tuple(reversed(ids))

    def grid(self, part: Part, *, words: bool = False) -> Grid:
        """Return one part's weights over tokens, or over words: the sum over columns and the mean over rows.

        Rows of the cross-attention are named by what is predicted. Raises `ConfigError` for a part that isn't there.
        """
        if self.forced is None:
            raise ConfigError("expected a text to look into, found an empty one")
        if part not in self.forced.attention:
            known = ", ".join(self.forced.attention) or "none"
            raise ConfigError(
                f"part: expected one that this {self.architecture} model has ({known}), found {part}"
            )
        rows = {"encoder": self.source, "decoder": self.forced.reads, "cross": self.forced.target}[part]
        columns = self.forced.reads if part == "decoder" else self.source
        weights = self.forced.attention[part]
        if not words:
            return Grid(rows.pieces, columns.pieces, weights)
        return Grid(rows.words, columns.words, join_words(weights, rows.word_of, columns.word_of))

    def to_json(self, *, attention: bool = True) -> dict[str, Any]:
        """Return plain lists and numbers, `attention` included or not; schema in docs/analysis.md."""
        return {
            "schema": SCHEMA,
            "architecture": self.architecture,
            "beam": self.beam,
            "alpha": self.alpha,
            "interventions": [str(intervention) for intervention in self.interventions],
            "notes": list(self.notes),
            "source": asdict(self.source),
            "forced": None if self.forced is None else forced_json(self.forced, attention=attention),
            "hypotheses": [asdict(hypothesis) for hypothesis in self.hypotheses],
            "tree": [asdict(node) for node in self.tree],
        }

    def dumps(self) -> str:
        """Return `to_json` as one line of JSON."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)


def join_words(
    weights: NDArray[np.float32], row_words: Sequence[int], column_words: Sequence[int]
) -> NDArray[np.float32]:
    """Go from tokens to words, whose numbers are given: sum over columns, mean over rows (Clark et al. 2019)."""
    rows, columns = (
        np.eye(max(words) + 1, dtype=np.float32)[list(words)] for words in (row_words, column_words)
    )  # (tokens, words) each
    return (rows / rows.sum(0)).T @ weights @ columns


def forced_json(forced: Forced, *, attention: bool = True) -> dict[str, Any]:
    """Return one forced reading as plain lists and numbers; weights have six decimals, masked ones are exactly 0."""
    weights = forced.attention.items() if attention else ()
    return {
        **asdict(replace(forced, attention={})),
        "attention": {
            part: np.round(layers.astype(np.float64), _DIGITS).tolist() for part, layers in weights
        },
    }

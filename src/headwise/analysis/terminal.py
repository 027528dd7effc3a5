"""Text output of a trace: attention bars of a word, each head's strongest connections, the beam tree."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.difference import Difference
from headwise.analysis.interventions import PART_NAMES, PARTS, Part
from headwise.analysis.stepwise import Stepwise
from headwise.analysis.trace import Alternative, Side, Trace, join_words
from headwise.errors import ConfigError

_BAR = 24  # characters
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STRONGEST = 3  # connections of a head
_LIKELIEST = 3  # tokens at a step


def describe(trace: Trace, *, word: str | None = None, words: bool = False) -> list[str]:
    """Return the lines that `headwise explain` prints; `word` is a word of the output or its number, from 1.

    Connections are between tokens or, with `words`, between words. Raises `ConfigError` for a word that isn't in the
    output.
    """
    if trace.forced is None:
        return ["nothing to look into: the text is empty"]
    forced = trace.forced
    lines = [f"note: {note}" for note in trace.notes]
    lines += [f"source  {trace.source.text}", f"output  {forced.target.text}"]
    lines += [f"        log P {forced.log_probability:.3f}, score {forced.score:.3f}, beam {trace.beam}"]
    lines += ["", *_confidence(trace)]
    if word is not None:
        lines += ["", *_word_attention(trace, word)]
    for part in PARTS:
        if part in forced.attention:
            lines += ["", f"{PART_NAMES[part]}: strongest connections", *_connections(trace, part, words)]
    return lines


def difference_lines(changed: Difference) -> list[str]:
    """Return the lines about the effect of interventions: the words that changed, and log-probabilities."""
    marks = {"removed": "[-{}-]", "added": "{{+{}+}}"}
    words = []
    for change in changed.words:
        if change.kind == "same":
            words.append(" ".join(change.after))
        for kind, span in (("removed", change.before), ("added", change.after)):
            if change.kind in (kind, "replaced") and span:
                words.append(marks[kind].format(" ".join(map(plain, span))))
    return [
        "compared with the translation without interventions",
        f"  words   {' '.join(words) if changed.changed else 'the same'}",
        f"  log P   of the translation before: {changed.before:.4f}, now {changed.before_now:.4f}, "
        f"Δ {changed.delta:+.4f}",
        f"          of the best translation:   {changed.before:.4f}, now {changed.after:.4f}",
    ]


def step_lines(stepwise: Stepwise) -> list[str]:
    """Return the steps of the decoder, one line each: the token, its probability in both ways, what else was likely."""
    names = [plain(step.chosen.piece) for step in stepwise.steps]
    width = max(map(columns, names))
    lines = ["the decoder step by step: token, its probability, that with teacher forcing, and the likeliest tokens"]
    for name, step in zip(names, stepwise.steps, strict=True):
        own, forced = math.exp(step.chosen.log_probability), math.exp(step.forced)
        lines.append(f"  {padded(name, width)}  {own:.4f}  {forced:.4f}   {_likely(step.alternatives)}")
    return [
        *lines,
        f"  largest difference of a probability over the whole vocabulary: {stepwise.difference:.1e}",
    ]


def tree_lines(trace: Trace) -> list[str]:
    """Return the beam tree, one line per hypothesis: its last token and that token's log-probability.

    A finished hypothesis also has its log-probability, length penalty and score.
    """
    children: dict[int | None, list[int]] = {}
    for index, node in enumerate(trace.tree):
        children.setdefault(node.parent, []).append(index)
    lines = [f"beam tree: {len(trace.tree)} hypotheses, beam {trace.beam}, alpha {trace.alpha:g}"]
    stack = [(index, 0) for index in reversed(children.get(None, []))]
    while stack:
        index, depth = stack.pop()
        node = trace.tree[index]
        extensions = children.get(index, [])
        scores = f"  = {node.log_probability:.3f} / {node.length_penalty:.3f} = {node.score:.3f}"
        rank = "" if node.rank is None else f"  #{node.rank + 1}"
        suffix = f"{scores}{rank}" if node.finished else "" if extensions else "  (left the beam)"
        lines.append(f"{'  ' * depth}{plain(node.piece)} {node.token_log_probability:.2f}{suffix}")
        child_depth = depth + (len(extensions) > 1)  # only where it branches
        stack += [(child, child_depth) for child in reversed(extensions)]
    return lines


def find_word(side: Side, word: str) -> int:
    """Return the index, from 0, of a word given literally or by its number from 1; raises `ConfigError` if missing."""
    if word in side.words:
        return side.words.index(word)
    if re.fullmatch("[0-9]{1,9}", word) and 1 <= int(word) <= len(side.words):
        return int(word) - 1
    raise ConfigError(f"word: expected one of the output ({' '.join(side.words)}) or its number, found {word!r}")


def bar(share: float, width: int = _BAR) -> str:
    """Return a bar that fills `share` (0 to 1) of `width` characters, in steps of an eighth of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    return (_EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(width)


def padded(text: str, width: int) -> str:
    """Pad to `width` terminal columns; wide East Asian characters take two."""
    return text + " " * max(width - columns(text), 0)


def columns(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def plain(piece: str) -> str:
    """Return a subword without `▁`, with control characters replaced, so that a terminal can't interpret them."""
    text = piece.replace("▁", "") if piece.strip("▁") else piece
    return "".join(character if character.isprintable() else "�" for character in text)


def _confidence(trace: Trace) -> Iterator[str]:
    assert trace.forced is not None
    forced = trace.forced
    pieces = [plain(piece) for piece in forced.target.pieces]
    width = max(map(columns, pieces), default=0)
    yield "probability of each token, and what else could have stood there"
    for token, piece, value, others in zip(
        forced.target.ids, pieces, forced.log_probabilities, forced.alternatives, strict=True
    ):
        likely = _likely([other for other in others if other.id != token])
        yield f"  {padded(piece, width)}  {bar(math.exp(value), 12)} {math.exp(value):.2f}   {likely}"


def _likely(tokens: Sequence[Alternative]) -> str:
    return "  ".join(f"{plain(one.piece)} {math.exp(one.log_probability):.2f}" for one in tokens[:_LIKELIEST])


def _word_attention(trace: Trace, word: str) -> Iterator[str]:
    """Yield the mean weights of the steps that predict the subwords of a word, by the words that they could see."""
    assert trace.forced is not None
    forced, target = trace.forced, trace.forced.target
    index = find_word(target, word)
    sides: dict[Part, Side] = {"cross": trace.source, "decoder": forced.reads}
    if set(forced.attention) == {"encoder"}:  # a masked language model, whose steps are its positions
        sides = {"encoder": forced.reads}
    for part, side in sides.items():
        if part not in forced.attention:
            continue
        # The rows of all parts are the steps that predict the target's subwords, whatever these steps read.
        rows = join_words(forced.attention[part], target.word_of, side.word_of)
        weights = rows[:, :, index].mean((0, 1))
        last = max(step for step, owner in enumerate(target.word_of) if owner == index)
        seen = side.word_of[last] + 1 if part == "decoder" else len(side.words)
        if weights[seen:].any():  # without the causal mask
            seen = len(side.words)
        yield f"{PART_NAMES[part]} while {target.words[index]!r} was predicted, mean of all layers and heads"
        labels = [plain(name) for name in side.words[:seen]]
        width = max(map(columns, labels))
        for name, weight in zip(labels, weights[:seen], strict=True):
            yield f"  {padded(name, width)}  {bar(float(weight))} {weight:.2f}"


def _connections(trace: Trace, part: Part, words: bool) -> Iterator[str]:
    grid = trace.attention_map(part, words=words)
    rows, names = ([plain(name) for name in side] for side in (grid.rows, grid.columns))
    for layer, heads in enumerate(grid.weights):
        for head, weights in enumerate(heads):
            connections = "   ".join(
                f"{rows[row]} → {names[column]} {weights[row, column]:.2f}"
                for row, column in _largest(weights, first=int(part == "decoder"))
            )
            yield f"  {layer + 1}.{head + 1}  {connections}"


def _largest(weights: NDArray[np.float32], first: int) -> Sequence[tuple[int, int]]:
    """Return (row, column) of the largest weights, at most one per row, starting with row `first`.

    (The decoder's first step can attend only to itself.)
    """
    best = weights.argmax(axis=1)
    rows = np.argsort(-weights.max(axis=1)[first:], kind="stable")[:_STRONGEST] + first
    return [(int(row), int(best[row])) for row in rows]


def table_lines(names: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with a column for each of `head`, and a row of cells for each name, aligned on the right."""
    first = max(map(columns, names))
    widths = [max(map(columns, (title, *cells))) for title, *cells in zip(head, *rows, strict=True)]
    return [
        "  "
        + "  ".join(
            [
                padded(name, first),
                *(" " * (w - columns(cell)) + cell for cell, w in zip(cells, widths, strict=True)),
            ]
        )
        for name, cells in zip(["", *names], [head, *rows], strict=True)
    ]

"""Length extrapolation of position encodings: training on up to 64 tokens, tests on up to 512.

The task is tagging every token with the sum, modulo 8, of itself and of the token before it: a model that knows the
order can tag sequences of any length. (The token two positions before would be harder for ALiBi, whose weights only
fall with the distance: it learns three quarters of such tags.) Attention is causal, as in the language models that
these encodings were made for (in bidirectional attention, ALiBi's |p - j| would be the same to the left and to the
right).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, judge, plain
from headwise.experiments.harness.records import Mean, Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale
from headwise.nn.layers import FeedForward, LayerNorm, Residual
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions, Positions, attention_positions, position_encodings

_SYMBOLS = 8
_IMPORTED = ("fairseq", "tensor2tensor")  # the paper's sinusoids with other frequencies, for imported models
_TRAINED, _TESTED = 64, (64, 128, 256, 512)
_LEARNED = 0.9  # accuracy from which a length counts as learned
_SETTINGS = {"steps": 1000, "trained": _TRAINED, "tested": _TESTED, "d_model": 64, "layers": 2}


class CausalLayer(nn.Module):
    """Causal self-attention and feed-forward, each in a pre-norm residual connection."""

    def __init__(self, config: ModelConfig, positions: AttentionPositions | None) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.heads, role="causal", positions=positions)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation, 0.0)
        self.around_attention = Residual(config.d_model, "pre", 0.0)
        self.around_feed_forward = Residual(config.d_model, "pre", 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, time, d_model)."""
        around = self.around_attention
        x = around.post_norm(around.add(x, self.attention(around.pre_norm(x))))
        around = self.around_feed_forward
        return around.post_norm(around.add(x, self.feed_forward(around.pre_norm(x))))


class Tagger(nn.Module):
    """A stack of causal layers with a linear classifier for each token."""

    def __init__(self, positions: str, longest: int, d_model: int, layers: int) -> None:
        super().__init__()
        shape = {"d_model": d_model, "d_ff": 4 * d_model, "heads": 4}
        config = ModelConfig.model_validate({**shape, "positions": positions, "max_length": longest})
        self.embedding = nn.Embedding(_SYMBOLS, d_model)
        self.positions = Positions(positions, longest, d_model)
        layer_positions = attention_positions(config, layers, causal=True)
        self.layers = nn.ModuleList(
            CausalLayer(config, positions_of_layer) for positions_of_layer in layer_positions
        )
        self.norm, self.output = LayerNorm(d_model), nn.Linear(d_model, _SYMBOLS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, time) to logits (batch, time, symbols)."""
        x = self.positions(self.embedding(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def tags(tokens: Tensor) -> Tensor:
    """Return the gold tags, (batch, time): each token plus the one before it (0 if there is none), modulo 8."""
    before = nn.functional.pad(tokens, (1, 0))[:, : tokens.size(1)]
    return (tokens + before) % _SYMBOLS


def measure(
    *,
    seed: int,
    positions: str,
    steps: int,
    trained: int,
    tested: Sequence[int],
    d_model: int,
    layers: int,
) -> dict[str, Any]:
    """Train on sequences of 16 to `trained` tokens; return the accuracy on new sequences of each length in `tested`.

    For lengths beyond `trained`, only the positions beyond it are counted.
    """
    torch.manual_seed(seed)
    model = Tagger(positions, max(tested), d_model, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = 2e-3 * min(step / 100, (steps - step) / (steps - 100))
        length = int(torch.randint(16, trained + 1, ()))
        tokens = torch.randint(_SYMBOLS, (32, length))
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tags(tokens).flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return {"accuracy": {str(length): _accuracy(model, length, trained) for length in tested}}


@torch.no_grad()
def _accuracy(model: Tagger, length: int, trained: int) -> float:
    tokens = torch.randint(_SYMBOLS, (32, length))
    correct = model(tokens).argmax(-1) == tags(tokens)
    return correct[:, trained if length > trained else 0 :].double().mean().item()


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return a row for each position encoding, the same at every scale."""
    return [
        MeasuredRow(
            f"extrapolation-{encoding.name}",
            encoding.name,
            measure,
            {"positions": encoding.name, **_SETTINGS},
            "extrapolation",
        )
        for encoding in position_encodings()
        if encoding.name not in _IMPORTED
    ]


def find(results: Results) -> Finding:
    """Report which encodings stay accurate at eight times the trained length."""
    table = Table(
        f"Accuracy by length; trained on 16 to {_TRAINED} tokens; guessing has {1 / _SYMBOLS:.3f}",
        ("positions", *(f"length {length}" for length in _TESTED)),
        tuple(
            (row.label, *(results.cell(row.name, f"accuracy.{length}", 3) for length in _TESTED))
            for row in results.rows
        ),
        f"Beyond {_TRAINED}, only the positions that training never had are counted.",
    )
    has_results = any(results.records.get(row.name) for row in results.rows)
    return Finding(
        [table], [_chart(results)] if has_results else [], [_claim(results, name) for name in _CLAIMS]
    )


# Encoding -> the claim about lengths beyond training, and whether it is that accuracy stays above `_LEARNED`.
_CLAIMS = {
    "alibi": ("ALiBi works at lengths beyond training (Press et al. 2022)", 1),
    "relative": ("Vectors for clipped distances work at lengths beyond training (Shaw et al. 2018)", 1),
    "t5": ("Buckets of distances work at lengths beyond training (Raffel et al. 2020)", 1),
    "rotary": ("Rotary positions alone lose accuracy beyond the lengths of training", -1),
    "sinusoidal": (
        "Sinusoids extrapolate to longer sequences than those of training (section 3.5: they may)",
        1,
    ),
}


def _claim(results: Results, name: str) -> Claim:
    (text, sign), row = _CLAIMS[name], f"extrapolation-{name}"
    trained = results.mean(row, f"accuracy.{_TRAINED}")
    longest = results.mean(row, f"accuracy.{_TESTED[-1]}")
    if trained is None or longest is None:
        return Claim(text, "not run yet", f"Missing: {row}; it takes about a minute.")
    if trained.value < _LEARNED:
        because = f"Accuracy {trained.text()} at {_TRAINED}: the task wasn't learned at the trained lengths."
        return Claim(text, "undecided", because)
    above = Mean(longest.value - _LEARNED, longest.half, longest.count)
    of = f"of accuracy at {_TESTED[-1]} tokens, against the {_LEARNED} from which a length counts as learned"
    return judge(text, above, sign, of)


def _chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for index, row in enumerate(results.rows):
            means = [results.mean(row.name, f"accuracy.{length}") for length in _TESTED]
            if all(means):
                values = [value.value for value in means if value is not None]
                axis.plot(_TESTED, values, "o-", color=f"C{index}", label=row.label)
        axis.axvline(_TRAINED, color="0.8")
        axis.axhline(1 / _SYMBOLS, color="0.8", linestyle=":")
        axis.set_xscale("log", base=2)
        axis.set_xticks(_TESTED, [str(length) for length in _TESTED])
        axis.set(xlabel=f"length (trained up to {_TRAINED})", ylabel="accuracy", ylim=(0, 1.03))
        figure.legend(loc="outside right center", frameon=False, fontsize=8)

    return Chart("extrapolation", "Accuracy beyond the trained length for each encoding of positions", draw)


EXPERIMENT = Experiment("extrapolation", "Extrapolation of positions", rows, find, seeds=(1, 2, 3))

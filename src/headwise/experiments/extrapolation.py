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
from torch import Tensor
from torch.nn import functional

from headwise.experiments.harness.outcome import Claim, Finding, Table
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale
from headwise.experiments.tagging import LEARNED, Tagger, accuracy_chart, fit, learned_claim, shape
from headwise.nn.positions import position_encodings

_SYMBOLS = 8
_IMPORTED = ("fairseq", "tensor2tensor")  # the paper's sinusoids with other frequencies, for imported models
_TRAINED, _TESTED = 64, (64, 128, 256, 512)
_SETTINGS = {"steps": 1000, "trained": _TRAINED, "tested": _TESTED, "d_model": 64, "layers": 2}


def tags(tokens: Tensor) -> Tensor:
    """Return the gold tags, (batch, time): each token plus the one before it (0 if there is none), modulo 8."""
    before = functional.pad(tokens, (1, 0))[:, : tokens.size(1)]
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
    model = Tagger(shape(d_model, layers, max(tested), positions=positions), _SYMBOLS, _SYMBOLS)

    def batch() -> tuple[Tensor, Tensor]:
        length = int(torch.randint(16, trained + 1, ()))
        tokens = torch.randint(_SYMBOLS, (32, length))
        return tokens[:, :, None], tags(tokens)

    fit(model, batch, steps, rate=2e-3)
    return {"accuracy": {str(length): _accuracy(model, length, trained) for length in tested}}


@torch.no_grad()
def _accuracy(model: Tagger, length: int, trained: int) -> float:
    tokens = torch.randint(_SYMBOLS, (32, length))
    correct = model(tokens[:, :, None]).argmax(-1) == tags(tokens)
    return correct[:, trained if length > trained else 0 :].double().mean().item()


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return a row for each position encoding, the same at every scale."""
    return [
        MeasuredRow(
            f"extrapolation-{name}",
            name,
            measure,
            {"positions": name, **_SETTINGS},
            "extrapolation",
        )
        for name in encodings()
    ]


def encodings() -> list[str]:
    """Return the names of the position encodings that models are trained with."""
    return [encoding.name for encoding in position_encodings() if encoding.name not in _IMPORTED]


def find(results: Results) -> Finding:
    """Report which encodings stay accurate at eight times the trained length."""
    guessing = 1 / _SYMBOLS
    table = Table(
        f"Accuracy by length; trained on 16 to {_TRAINED} tokens; guessing has {guessing:.3f}",
        ("positions", *(f"length {length}" for length in _TESTED)),
        tuple(
            (row.label, *(results.cell(row.name, f"accuracy.{length}", 3) for length in _TESTED))
            for row in results.rows
        ),
        f"Beyond {_TRAINED}, only the positions that training never had are counted.",
    )
    chart = accuracy_chart(
        results,
        "extrapolation",
        "Accuracy beyond the trained length for each encoding of positions",
        _TESTED,
        f"length (trained up to {_TRAINED})",
        guessing,
        _TRAINED,
    )
    charts = [chart] if any(results.records.values()) else []
    return Finding([table], charts, [_claim(results, name) for name in _CLAIMS])


# Encoding -> the claim about lengths beyond training, and whether it is that accuracy stays above `LEARNED`.
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
    (text, sign), row, longest = _CLAIMS[name], f"extrapolation-{name}", _TESTED[-1]
    trained = results.mean(row, f"accuracy.{_TRAINED}")
    if trained is not None and trained.value < LEARNED:
        because = f"Accuracy {trained.text()} at {_TRAINED}: the task wasn't learned at the trained lengths."
        return Claim(text, "undecided", because)
    return learned_claim(results, text, row, f"accuracy.{longest}", sign, f"at {longest} tokens")


EXPERIMENT = Experiment("extrapolation", "Extrapolation of positions", rows, find, seeds=(1, 2, 3))

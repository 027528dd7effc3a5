"""Recall from far away: what every kind of attention, and recurrence, finds again in sequences of 512 tokens.

A sequence shows 64 keys once each, at random places, with a value: `b=3`. All its other tokens ask for the value of a
key that was shown before, `b=?`, and are tagged with it. That is associative recall from many keys (Arora et al. 2024,
"Zoology: Measuring and Improving Recall in Efficient Language Models", section 3), with key and value in one token, so
that one layer of attention suffices, and with distances whose logarithm is evenly spread. What a model that can't look
up by content loses, and from which distance on, is known beforehand; the accuracy by distance shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.experiments.harness.outcome import Finding, Measure, Table, compare
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale
from headwise.experiments.tagging import NO_TAG, Tagger, accuracy_chart, fit, learned_claim, shape

_KEYS, _VALUES = 64, 8
_NEAREST = (1, 4, 16, 32, 64, 128, 256)  # accuracy is counted from one distance to below the next
_WINDOW, _LOCAL = 64, 23  # 23 ≈ √512, for a cost of n √n (Child et al. 2019)
_SETTINGS = {"steps": 1000, "length": 512, "keys": _KEYS, "nearest": _NEAREST, "d_model": 64, "layers": 2}
_RECURRENT = "recurrent"

# `model.attention`, or the recurrent layers -> label.
_KINDS = {
    "fused": "softmax over all before",
    "window": f"window of {_WINDOW}",
    "block_sparse": f"block-sparse, local and stride {_LOCAL}",
    "linear": "linear",
    "state_space": "S4D",
    _RECURRENT: "recurrent (GRU)",
}


class RecurrentTagger(nn.Module):
    """Layers of GRUs (Cho et al. 2014) with a linear classifier for each token, as large as a `Tagger`."""

    def __init__(self, d_model: int, layers: int, symbols: int, tags: int) -> None:
        super().__init__()
        size = 3 * d_model // 2  # two such layers have the parameters of two of the Transformer's
        self.embedding = nn.Embedding(symbols, d_model)
        self.layers = nn.GRU(d_model, size, layers, batch_first=True)
        self.output = nn.Linear(size, tags)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, time, symbols of a token), whose embeddings are added, to logits (batch, time, tags)."""
        return self.output(self.layers(self.embedding(tokens).sum(2))[0])


def sequences(batch: int, length: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens (batch, length, 2), tags and distances (batch, length).

    A token is a key below `keys` and a value above it, or a question mark, the highest symbol. Tag and distance are the
    key's value and how far before it was shown; where it is shown, `NO_TAG` and 0. The first token shows a key.
    """
    later = 1 + torch.rand(batch, length - 1).argsort(dim=1)[:, : keys - 1]
    shows = torch.zeros(batch, length, dtype=torch.bool).scatter(1, later, value=True)
    shows[:, 0] = True
    count = shows.cumsum(dim=1)  # keys shown so far
    back = (torch.rand(batch, length) * torch.log(count + 0.999)).exp().long()  # 1 is the last that was shown
    which = torch.where(shows, count - 1, count - back)
    key = torch.rand(batch, keys).argsort(dim=1).gather(1, which)
    value = torch.randint(_VALUES, (batch, keys)).gather(1, which)
    place = shows.nonzero()[:, 1].view(batch, keys).gather(1, which)
    tokens = torch.stack([key, keys + torch.where(shows, value, _VALUES)], dim=2)
    return tokens, value.masked_fill(shows, NO_TAG), torch.arange(length) - place


def measure(
    *,
    seed: int,
    kind: str,
    steps: int,
    length: int,
    keys: int,
    nearest: Sequence[int],
    d_model: int,
    layers: int,
) -> dict[str, Any]:
    """Train a model; return its parameters and, by distance, its accuracy on 128 new sequences.

    The result's distances are those of `nearest`; each stands for those up to the next, which it doesn't include.
    """
    torch.manual_seed(seed)
    symbols = keys + _VALUES + 1
    model: nn.Module
    if kind == _RECURRENT:
        model = RecurrentTagger(d_model, layers, symbols, _VALUES)
    else:
        options = {"window": {"size": _WINDOW}, "block_sparse": {"local": _LOCAL, "stride": _LOCAL}}
        config = shape(d_model, layers, length, attention=kind, attention_options=options)
        model = Tagger(config, symbols, _VALUES)
    fit(model, lambda: sequences(16, length, keys)[:2], steps, rate=3e-3)
    with torch.no_grad():
        tokens, tags, distance = sequences(128, length, keys)
        correct = (model(tokens).argmax(-1) == tags).double()
    accuracy = {}
    for low, high in zip(nearest, [*nearest[1:], length], strict=True):
        accuracy[str(low)] = correct[(distance >= low) & (distance < high)].mean().item()
    return {"parameters": sum(weight.numel() for weight in model.parameters()), "accuracy": accuracy}


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return a row for each kind of attention and one for recurrence, the same at every scale."""
    return [
        MeasuredRow(f"recall-{kind}", label, measure, {"kind": kind, **_SETTINGS}, "recall")
        for kind, label in _KINDS.items()
    ]


# Row -> the claim, the distance that decides it, and whether it is that accuracy there is above `LEARNED`.
_CLAIMS = {
    "fused": ("Self-attention finds a word again from any distance (section 4)", 256, 1),
    _RECURRENT: ("Recurrent layers of the same size lose what stands far away (section 4)", 256, -1),
    "window": ("Attention in a window finds nothing beyond what its layers reach", 256, -1),
    "block_sparse": ("Block-sparse attention finds a word again from any distance (Child et al. 2019)", 256, 1),
    "state_space": ("A state space that doesn't depend on the input can't recall (Arora et al. 2024)", 16, -1),
}  # fmt: skip


def find(results: Results) -> Finding:
    """Report from which distance each kind finds a value again."""
    length, guessing = _SETTINGS["length"], 1 / _VALUES
    ranges = [f"{low} to {high - 1}" for low, high in zip(_NEAREST, [*_NEAREST[1:], length], strict=True)]
    table = Table(
        f"Accuracy by distance; {length} tokens, {_KEYS} keys; guessing has {guessing:.3f}",
        ("in each layer", "parameters", *ranges),
        tuple(
            (
                row.label,
                "–" if (mean := results.mean(row.name, "parameters")) is None else f"{mean.value:,.0f}",
                *(results.cell(row.name, f"accuracy.{low}", 3) for low in _NEAREST),
            )
            for row in results.rows
        ),
        f"Two layers, d_model {_SETTINGS['d_model']}, causal, sinusoids; {_SETTINGS['steps']:,} steps of 16 new "
        f"sequences each. Two windows of {_WINDOW} reach {2 * (_WINDOW - 1)} tokens back.",
    )
    chart = accuracy_chart(
        results,
        "recall",
        "Accuracy of recall by the distance to what is asked for, for each kind of attention and recurrence",
        _NEAREST,
        "distance, from",
        guessing,
        _WINDOW,
    )
    claims = [
        learned_claim(results, text, f"recall-{kind}", f"accuracy.{low}", sign, f"from {low} tokens away on")
        for kind, (text, low, sign) in _CLAIMS.items()
    ]
    farthest = _NEAREST[-1]
    less = Measure(f"accuracy.{farthest}", f"of accuracy from {farthest} tokens away on")
    text = "Linear attention recalls less than the softmax does (Arora et al. 2024)"
    claims.append(compare(results, text, "recall-linear", "recall-fused", less, -1, "the softmax"))
    return Finding([table], [chart] if any(results.records.values()) else [], claims)


EXPERIMENT = Experiment("recall", "Recall from far away", rows, find, seeds=(1, 2, 3))

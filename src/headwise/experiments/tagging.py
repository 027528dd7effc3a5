"""Small causal models that tag every token of a made-up sequence, for tasks whose right answer is known by rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional

from headwise.config import ModelConfig
from headwise.experiments.harness.outcome import Chart, Claim, judge, plain
from headwise.experiments.harness.records import Mean, Results
from headwise.models.transformer import EncoderLayer
from headwise.nn.layers import LayerNorm
from headwise.nn.positions import Positions, attention_positions

LEARNED = 0.9  # accuracy from which a task counts as learned
NO_TAG = -100  # gold tag of tokens that aren't asked for
_RISING = 100  # steps in which the rate rises; then it falls linearly to zero


class Tagger(nn.Module):
    """`decoder_layers` causal layers with a linear classifier for each token."""

    def __init__(self, config: ModelConfig, symbols: int, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, config.d_model)
        self.positions = Positions(config.positions, config.max_length, config.d_model)
        inside = attention_positions(config, config.decoder_layers, causal=True)
        self.layers = nn.ModuleList(EncoderLayer(config, positions, "causal") for positions in inside)
        self.norm, self.output = LayerNorm(config.d_model), nn.Linear(config.d_model, tags)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (batch, time, symbols of a token), whose embeddings are added, to logits (batch, time, tags)."""
        x = self.positions(self.embedding(tokens).sum(2))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def shape(d_model: int, layers: int, longest: int, **keys: object) -> ModelConfig:
    """Return the configuration of a `Tagger`: four heads, pre-norm, no dropout, sequences of up to `longest` tokens."""
    sizes = {"d_model": d_model, "d_ff": 4 * d_model, "heads": 4, "decoder_layers": layers}
    return ModelConfig.model_validate({**sizes, "norm": "pre", "dropout": 0.0, "max_length": longest, **keys})


def fit(model: nn.Module, batch: Callable[[], tuple[Tensor, Tensor]], steps: int, rate: float) -> None:
    """Train with AdamW on batches of tokens and gold tags (batch, time); `rate` is the highest learning rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(step / _RISING, (steps - step) / (steps - _RISING))
        tokens, tags = batch()
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), tags.flatten(), ignore_index=NO_TAG)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def learned_claim(results: Results, text: str, row: str, path: str, sign: int, where: str) -> Claim:
    """Return the claim that a row's accuracy is above `LEARNED` (sign 1), or below it (-1), in some place."""
    accuracy = results.mean(row, path)
    if accuracy is None:
        return Claim(text, "not run yet", f"Missing: {row}; it takes some minutes.")
    above = Mean(accuracy.value - LEARNED, accuracy.half, accuracy.count)
    of = f"of accuracy {where}, against the {LEARNED} from which a task counts as learned"
    return judge(text, above, sign, of)


def accuracy_chart(
    results: Results, name: str, text: str, places: Sequence[int], label: str, guessing: float, marked: int
) -> Chart:
    """Return the chart of every row's accuracy in `places` of its records; `marked` is a place with a line."""

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for index, row in enumerate(results.rows):
            means = [results.mean(row.name, f"accuracy.{place}") for place in places]
            if all(means):
                values = [value.value for value in means if value is not None]
                axis.plot(places, values, "o-", color=f"C{index}", label=row.label)
        axis.axvline(marked, color="0.8")
        axis.axhline(guessing, color="0.8", linestyle=":")
        axis.set_xscale("log", base=2)
        axis.set_xticks(places, [str(place) for place in places])
        axis.set(xlabel=label, ylabel="accuracy", ylim=(0, 1.03))
        figure.legend(loc="outside right center", frameon=False, fontsize=8)

    return Chart(name, text, draw)

"""The paper's figures and formulas: schedule, sinusoids and label smoothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headwise.config import ScheduleConfig
from headwise.experiments.harness.outcome import Chart, Claim, Finding, decide, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale
from headwise.nn.positions import shift_matrix, sinusoids
from headwise.training.schedule import learning_rate

_SHIFT = "figures-shift"


def measure_shift(*, seed: int, d_model: int, length: int, offsets: list[int]) -> dict[str, Any]:
    """Return max |PE(pos + k) - M_k PE(pos)| over all positions, for each offset k (section 3.5)."""
    table = sinusoids(length, d_model).double()
    return {
        "errors": {
            str(k): (table[k:] - table[: length - k] @ shift_matrix(k, d_model).T).abs().max().item() for k in offsets
        }
    }


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the row of the sinusoids' shift."""
    shift = {"d_model": 512, "length": 512, "offsets": [1, 10, 100]}
    return [MeasuredRow(_SHIFT, "sinusoids are shifted by a matrix", measure_shift, shift, "figures")]


def find(results: Results) -> Finding:
    """Draw schedule, sinusoids and label smoothing, and judge the shift."""
    return Finding([], [_schedule_chart(), _sinusoids_chart(), _smoothing_chart()], [_shift_claim(results)])


def _shift_claim(results: Results) -> Claim:
    text = "For any fixed offset k, PE(pos + k) is a linear function of PE(pos)"
    record = results.first(_SHIFT)
    if record is None:
        return Claim(text, "not run yet", "`headwise reproduce figures` takes seconds.")
    errors = record.result["errors"]
    worst = max(errors.values())
    offsets = ", ".join(errors)
    because = f"With the matrix of the addition theorems, the largest error for k = {offsets} is {worst:.0e} (float32)."
    return Claim(text, decide(worst < 1e-6), because)


def _schedule_chart() -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        steps = range(1, 20_001, 20)
        for d_model, warmup in ((512, 4000), (512, 8000), (1024, 4000)):
            config = ScheduleConfig(warmup=warmup)
            axis.plot(
                steps,
                [learning_rate(config, d_model, step, 100_000) for step in steps],
                label=f"d_model = {d_model}, warm-up {warmup:,}",
            )
        axis.set(xlabel="step", ylabel="learning rate")
        axis.legend(frameon=False)

    return Chart("schedule", "Learning rate of the paper's equation 3 against steps", draw)


def _sinusoids_chart() -> Chart:
    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        image = axis.imshow(sinusoids(100, 128).numpy(), cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
        axis.set(xlabel="dimension (d_model = 128)", ylabel="position")
        figure.colorbar(image, label="PE(pos, i)")

    return Chart("sinusoids", "The sinusoids of section 3.5: value by position and dimension", draw)


def _smoothing_chart() -> Chart:
    """Return a chart of the loss against the gold subword's probability, the rest spread evenly over V - 1 others."""

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        size = 37_000
        odds = np.linspace(-4, 16, 400)  # log of p / (1 - p)
        p = 1 / (1 + np.exp(-odds))
        for epsilon in (0.0, 0.1, 0.2):
            gold_target = (1 - epsilon) + epsilon / size
            log_p_others = np.log1p(-p) - math.log(size - 1)
            loss = -(gold_target * np.log(p) + (1 - gold_target) * log_p_others)
            line = axis.plot(odds, loss - loss.min(), label=f"ε = {epsilon}")
            if epsilon:
                axis.axvline(math.log(gold_target / (1 - gold_target)), color=line[0].get_color(), linestyle=":")
        axis.set(xlabel="log p / (1 − p) of the right subword", ylabel="loss above its minimum (nats)", ylim=(0, 4))
        axis.legend(frameon=False)

    text = "Label smoothing gives the loss a minimum at a finite confidence (dotted), 37,000 subwords"
    return Chart("smoothing", text, draw)


EXPERIMENT = Experiment("figures", "The paper's figures", rows, find)

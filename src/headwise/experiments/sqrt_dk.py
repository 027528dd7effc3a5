"""Scaling of attention scores by 1/√d_k (section 3.2.1 and its footnote 4).

For queries and keys with independent components of mean 0 and variance 1, q · k has variance d_k. Without the scaling
the softmax saturates as d_k grows: one weight approaches 1, and the gradient to the scores vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.scales.scale import Scale
from headwise.nn.attention import attention_weights

_ROW = "sqrt-dk"
_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_DRAWS, _KEYS = 2000, 32


def measure(*, seed: int, sizes: Sequence[int], draws: int, keys: int) -> dict[str, Any]:
    """Measure the softmax with and without division by √d_k, for each d_k; queries and keys are N(0, 1), float64.

    `variance`: of the scores. Means over draws: `largest` weight and `entropy` (nats) of the softmax, and `gradient`,
    the Frobenius norm of its Jacobian ∂weights/∂scores, a factor of every gradient to queries and keys.
    """
    generator = torch.Generator().manual_seed(seed)
    points = []
    for size in sizes:
        q = torch.randn(draws, 1, 1, size, generator=generator, dtype=torch.float64)
        k = torch.randn(draws, 1, keys, size, generator=generator, dtype=torch.float64)
        point: dict[str, Any] = {"d_k": size, "variance": (q @ k.transpose(-2, -1)).var().item()}
        # Attention divides by √d_k; queries multiplied by √d_k cancel the division.
        for name, factor in (("divided", 1.0), ("undivided", math.sqrt(size))):
            point[name] = softmax_state(attention_weights(q * factor, k)[:, 0, 0])
        points.append(point)
    return {"points": points}


def softmax_state(weights: torch.Tensor) -> dict[str, float]:
    """Return means over softmaxes (draws, keys): largest weight, entropy, norm of the Jacobian diag(a) - a aᵀ."""
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    return {
        "largest": weights.amax(-1).mean().item(),
        "entropy": -torch.special.xlogy(weights, weights).sum(-1).mean().item(),
        "gradient": jacobian.flatten(1).norm(dim=1).mean().item(),
    }


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the one measurement, the same at every scale."""
    settings = {"sizes": _SIZES, "draws": _DRAWS, "keys": _KEYS}
    return [MeasuredRow(_ROW, "softmax against d_k", measure, settings, "sqrt-dk")]


def find(results: Results) -> Finding:
    """Compare the smallest and the largest d_k."""
    record = results.first(_ROW)
    text = "Dot products grow with d_k and push the softmax where its gradients vanish; dividing by √d_k prevents it"
    if record is None:
        return Finding(claims=[Claim(text, "not run yet", "`headwise reproduce sqrt-dk` takes seconds.")])
    points = record.result["points"]
    table = Table(
        f"Softmax over {_KEYS} keys, with scores divided by √d_k and not ({_DRAWS:,} draws)",
        (
            "d_k",
            "variance of q·k",
            "largest weight",
            "not divided",
            "entropy",
            "not divided",
            "gradient",
            "not divided",
        ),
        tuple(
            (
                str(p["d_k"]),
                f"{p['variance']:.1f}",
                *(
                    f"{p[kind][key]:.3f}"
                    for key in ("largest", "entropy", "gradient")
                    for kind in ("divided", "undivided")
                ),
            )
            for p in points
        ),
        "Gradient: mean norm of ∂weights/∂scores. Entropy in nats; a uniform softmax has "
        f"{math.log(_KEYS):.2f}.",
    )
    first, last = points[0], points[-1]
    unscaled = last["undivided"]["gradient"] / first["undivided"]["gradient"]
    scaled = last["divided"]["gradient"] / first["divided"]["gradient"]
    variance_is_d_k = abs(last["variance"] / last["d_k"] - 1) < 0.1
    because = (
        f"From d_k = {first['d_k']} to {last['d_k']:,} the variance of q·k follows d_k ({last['variance']:,.0f} at the "
        f"end); undivided, the gradient falls to {unscaled:.0%} and the largest weight rises to "
        f"{last['undivided']['largest']:.2f}; divided, they stay at {scaled:.0%} and {last['divided']['largest']:.2f}."
    )
    claim = Claim(text, decide(variance_is_d_k and unscaled < 0.5 and 0.8 < scaled < 1.25), because)
    return Finding([table], [_chart(points)], [claim])


def _chart(points: Sequence[dict[str, Any]]) -> Chart:
    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        sizes = [p["d_k"] for p in points]
        panels = ((left, "gradient", "norm of ∂weights/∂scores"), (right, "largest", "largest weight"))
        for axis, key, label in panels:
            plain(axis)
            axis.plot(sizes, [p["divided"][key] for p in points], "o-", color="C0", label="divided by √d_k")
            axis.plot(sizes, [p["undivided"][key] for p in points], "s--", color="C3", label="not divided")
            axis.set_xscale("log", base=2)
            axis.set(xlabel="d_k", ylabel=label, ylim=(0, None))
        right.set_ylim(0, 1)
        left.legend(frameon=False)

    return Chart(
        "sqrt-dk", "Gradient through the softmax and largest weight against d_k, with √d_k and without", draw
    )


EXPERIMENT = Experiment("sqrt-dk", "Why √d_k", rows, find)

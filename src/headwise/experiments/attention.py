"""Two properties of attention, measured: why its scores are divided by √d_k, and its permutation equivariance.

For queries and keys with independent components of mean 0 and variance 1, q · k has variance d_k (section 3.2.1 and its
footnote 4). Without the division the softmax saturates as d_k grows: one weight approaches 1, and the gradient to the
scores vanishes.

For a stack of encoder layers without position encodings, f(P x) = P f(x) holds for every permutation P: bit by bit in
integer-valued arithmetic, and in float64 up to the rounding of sums in another order. It doesn't hold with any position
encoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from headwise.config import ModelConfig
from headwise.experiments.extrapolation import encodings
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale
from headwise.models.transformer import Transformer
from headwise.nn.attention import attention_weights

_SCALING, _EQUIVARIANCE = "sqrt-dk", "permutation"
_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_DRAWS, _KEYS = 2000, 32
_ROUNDING = 1e-12  # tolerance for float64 sums in another order, far above the measured differences


def measure_scaling(*, seed: int, sizes: Sequence[int], draws: int, keys: int) -> dict[str, Any]:
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


def scaling_rows(scale: Scale) -> list[MeasuredRow]:
    """Return the one measurement, the same at every scale."""
    settings = {"sizes": _SIZES, "draws": _DRAWS, "keys": _KEYS}
    return [MeasuredRow(_SCALING, "softmax against d_k", measure_scaling, settings, "sqrt-dk")]


def find_scaling(results: Results) -> Finding:
    """Compare the smallest and the largest d_k."""
    record = results.first(_SCALING)
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
        f"Gradient: mean norm of ∂weights/∂scores. Entropy in nats; a uniform softmax has {math.log(_KEYS):.2f}.",
    )
    first, last = points[0], points[-1]
    unscaled = last["undivided"]["gradient"] / first["undivided"]["gradient"]
    scaled = last["divided"]["gradient"] / first["divided"]["gradient"]
    variance_is_d_k = abs(last["variance"] / last["d_k"] - 1) < 0.1
    because = (
        f"From d_k = {first['d_k']} to {last['d_k']:,} the gradient through the softmax falls to {unscaled:.0%} where "
        f"scores aren't divided, and stays at {scaled:.0%} where they are."
    )
    claim = Claim(text, decide(variance_is_d_k and unscaled < 0.5 and 0.8 < scaled < 1.25), because)
    return Finding([table], [_scaling_chart(points)], [claim])


def _scaling_chart(points: Sequence[dict[str, Any]]) -> Chart:
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

    return Chart("sqrt-dk", "Gradient through the softmax and largest weight against d_k, with √d_k and without", draw)


SCALING = Experiment("sqrt-dk", "Why √d_k", scaling_rows, find_scaling)


def measure_permutation(*, seed: int, length: int, permutations: int) -> dict[str, Any]:
    """Return max |f(P x) - P f(x)| of a float64 encoder for every position encoding, and of attention alone.

    `exact` is the difference for attention on integers (uniform weights, the number of keys a power of two), whose sums
    have no rounding error: the claim is wrong unless it is 0.0.
    """
    torch.manual_seed(seed)
    orders = [torch.randperm(length) for _ in range(permutations)]
    return {
        "exact": max(_attention_difference(order) for order in orders),
        "kinds": {name: max(_encoder_difference(name, order, seed) for order in orders) for name in encodings()},
    }


@torch.no_grad()
def _attention_difference(order: Tensor) -> float:
    """Return the difference for softmax(Q Kᵀ / √d_k) V with equal scores and integer values: every sum is exact."""
    length = len(order)
    q, k = torch.ones(1, 1, length, 4, dtype=torch.float64), torch.ones(1, 1, length, 4, dtype=torch.float64)
    v = torch.randint(-8, 9, (1, 1, length, 4)).double()
    original = attention_weights(q, k) @ v
    permuted = attention_weights(q[:, :, order], k[:, :, order]) @ v[:, :, order]
    return (permuted - original[:, :, order]).abs().max().item()


@torch.no_grad()
def _encoder_difference(positions: str, order: Tensor, seed: int) -> float:
    torch.manual_seed(seed)
    shape = {"encoder_layers": 3, "decoder_layers": 1, "d_model": 32, "d_ff": 64, "heads": 4}
    config = ModelConfig.model_validate({**shape, "dropout": 0.0, "positions": positions})
    model = Transformer(config, 50, 50).double().eval()
    model.compute_dtype = torch.float64
    tokens = torch.randint(4, 50, (1, len(order)))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    original = model.encode(tokens, mask).states
    permuted = model.encode(tokens[:, order], mask).states
    return (permuted - original[:, order]).abs().max().item()


def permutation_rows(scale: Scale) -> list[MeasuredRow]:
    """Return the one measurement, the same at every scale."""
    return [
        MeasuredRow(
            _EQUIVARIANCE,
            "an encoder and its permuted input",
            measure_permutation,
            {"length": 16, "permutations": 20},
            _EQUIVARIANCE,
        )
    ]


def find_permutation(results: Results) -> Finding:
    """Confirm the claim if there is no difference without positions, and one with every position encoding."""
    record = results.first(_EQUIVARIANCE)
    text = "Attention without positions is permutation-equivariant, exactly, and every encoding of positions ends that"
    if record is None:
        return Finding(claims=[Claim(text, "not run yet", "`headwise reproduce permutation` takes seconds.")])
    kinds, exact = record.result["kinds"], record.result["exact"]
    sorted_kinds = dict(sorted(kinds.items(), key=lambda item: item[1]))
    table = Table(
        "Largest |f(P x) - P f(x)| over 20 permutations of 16 tokens, 3 encoder layers, float64",
        ("positions", "difference"),
        tuple((name, f"{value:.1e}") for name, value in sorted_kinds.items()),
        f"Attention alone, in whole numbers that sum without rounding: {exact:g}.",
    )
    smallest_with_positions = min(value for name, value in kinds.items() if name != "none")
    because = (
        f"Without positions the outputs differ by {kinds['none']:.0e} (rounding of sums in another order; {exact:g} "
        f"where there is none), with positions by {smallest_with_positions:.1e} and more."
    )
    holds = exact == 0.0 and kinds["none"] < _ROUNDING and smallest_with_positions > 1e-6

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        axis.barh(
            list(sorted_kinds),
            list(sorted_kinds.values()),
            color=["C0" if n == "none" else "C7" for n in sorted_kinds],
        )
        axis.set_xscale("log")
        axis.set(xlabel="largest |f(P x) - P f(x)|, float64")

    chart = Chart("permutation", "How much permuting the input changes more than the order of the output", draw)
    return Finding([table], [chart], [Claim(text, decide(holds), because)])


PERMUTATION = Experiment("permutation", "Permutation equivariance", permutation_rows, find_permutation)

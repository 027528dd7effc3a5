"""Permutation equivariance of attention without position encodings.

    f(P x) = P f(x) for every permutation P

holds for a stack of encoder layers without position encodings: bit by bit in integer-valued arithmetic, and in float64
up to the rounding of sums in another order. It doesn't hold with any position encoding.
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from headwise.config import ModelConfig
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.scales.scale import Scale
from headwise.models.transformer import Transformer
from headwise.nn.attention import attention_weights
from headwise.nn.positions import position_encodings

_ROW = "permutation"
_ROUNDING = 1e-12  # tolerance for float64 sums in another order, far above the measured differences


def measure(*, seed: int, length: int, permutations: int) -> dict[str, Any]:
    """Return max |f(P x) - P f(x)| of a float64 encoder for every position encoding, and of attention alone.

    `exact` is the difference for attention on integers (uniform weights, the number of keys a power of two), whose sums
    have no rounding error: the claim is wrong unless it is 0.0.
    """
    torch.manual_seed(seed)
    orders = [torch.randperm(length) for _ in range(permutations)]
    return {
        "exact": max(_attention_difference(order) for order in orders),
        "kinds": {
            encoding.name: max(_encoder_difference(encoding.name, order, seed) for order in orders)
            for encoding in position_encodings()
        },
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


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the one measurement, the same at every scale."""
    return [
        MeasuredRow(
            _ROW, "an encoder and its permuted input", measure, {"length": 16, "permutations": 20}, _ROW
        )
    ]


def find(results: Results) -> Finding:
    """Confirm the claim if there is no difference without positions, and one with every position encoding."""
    record = results.first(_ROW)
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

    chart = Chart(
        "permutation", "How much permuting the input changes more than the order of the output", draw
    )
    return Finding([table], [chart], [Claim(text, decide(holds), because)])


EXPERIMENT = Experiment("permutation", "Permutation equivariance", rows, find)

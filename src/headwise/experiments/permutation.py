"""Attention without positions can't tell orders apart: it is permutation-equivariant.

    f(P x) = P f(x) for every permutation P

holds for a stack of encoder layers without positions, exactly: in integer-valued arithmetic to the bit, and in float64
up to the rounding of sums taken in another order. With any positions it doesn't hold.
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
_ROUNDING = 1e-12  # of float64 sums in another order, far above what is found


def measure(*, seed: int, length: int, permutations: int) -> dict[str, Any]:
    """Measure max |f(P x) - P f(x)| of a float64 encoder for every kind of positions, and of plain attention.

    `exact` is the same for attention in whole numbers (uniform weights over a power of two of keys), whose sums have
    no rounding: 0.0 or the claim is wrong.
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
    """softmax(Q Kᵀ / √d_k) V with equal scores and whole values: every sum is exact."""
    length = len(order)
    q, k = torch.ones(1, 1, length, 4, dtype=torch.float64), torch.ones(1, 1, length, 4, dtype=torch.float64)
    v = torch.randint(-8, 9, (1, 1, length, 4)).double()
    straight = attention_weights(q, k) @ v
    turned = attention_weights(q[:, :, order], k[:, :, order]) @ v[:, :, order]
    return (turned - straight[:, :, order]).abs().max().item()


@torch.no_grad()
def _encoder_difference(positions: str, order: Tensor, seed: int) -> float:
    torch.manual_seed(seed)
    shape = {"encoder_layers": 3, "decoder_layers": 1, "d_model": 32, "d_ff": 64, "heads": 4}
    config = ModelConfig.model_validate({**shape, "dropout": 0.0, "positions": positions})
    model = Transformer(config, 50, 50).double().eval()
    model.compute_dtype = torch.float64
    tokens = torch.randint(4, 50, (1, len(order)))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    straight = model.encode(tokens, mask).states
    turned = model.encode(tokens[:, order], mask).states
    return (turned - straight[:, order]).abs().max().item()


def rows(scale: Scale) -> list[MeasuredRow]:
    """One measurement, the same at every scale."""
    return [
        MeasuredRow(
            _ROW, "an encoder and its permuted input", measure, {"length": 16, "permutations": 20}, _ROW
        )
    ]


def find(results: Results) -> Finding:
    """Without positions nothing may change; with each of them something must."""
    record = results.first(_ROW)
    text = "Attention without positions is permutation-equivariant, exactly, and every encoding of positions ends that"
    if record is None:
        return Finding(claims=[Claim(text, "not run yet", "`headwise reproduce permutation` takes seconds.")])
    kinds, exact = record.result["kinds"], record.result["exact"]
    ordered = dict(sorted(kinds.items(), key=lambda item: item[1]))
    table = Table(
        "Largest |f(P x) - P f(x)| over 20 permutations of 16 tokens, 3 encoder layers, float64",
        ("positions", "difference"),
        tuple((name, f"{value:.1e}") for name, value in ordered.items()),
        f"Attention alone, in whole numbers that sum without rounding: {exact:g}.",
    )
    others = min(value for name, value in kinds.items() if name != "none")
    because = (
        f"Without positions the outputs differ by {kinds['none']:.0e} (rounding of sums in another order; {exact:g} "
        f"where there is none), with positions by {others:.1e} and more."
    )
    held = exact == 0.0 and kinds["none"] < _ROUNDING and others > 1e-6

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        axis.barh(
            list(ordered), list(ordered.values()), color=["C0" if n == "none" else "C7" for n in ordered]
        )
        axis.set_xscale("log")
        axis.set(xlabel="largest |f(P x) - P f(x)|, float64")

    chart = Chart(
        "permutation", "How much permuting the input changes more than the order of the output", draw
    )
    return Finding([table], [chart], [Claim(text, decide(held), because)])


EXPERIMENT = Experiment("permutation", "Permutation equivariance", rows, find)

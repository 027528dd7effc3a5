"""Table 1: complexity, sequential operations and path length, by formula and counted."""

from __future__ import annotations

from typing import Any

import torch

from headwise.experiments import complexity
from headwise.experiments.complexity import (
    KERNEL,
    KINDS,
    Convolutional,
    Recurrent,
    SelfAttention,
    layers_to_connect,
)
from headwise.experiments.complexity import longest_chain as chain
from headwise.experiments.harness.outcome import Claim, Finding, Table, decide
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import TABLE_1
from headwise.experiments.scales import Scale

_PATHS = "table1-paths"
_LENGTHS = (8, 16, 32, 64, 128)
_RADIUS = 4  # of restricted attention in the path measurement


def measure_paths(*, seed: int, lengths: list[int], radius: int) -> dict[str, Any]:
    """Return, by length, the longest operation chain of one layer and the layers that connect first and last token.

    A single recurrent layer connects them, but through a chain of steps; convolutions are measured with contiguous
    kernels and with dilations 1, k, k², … (the paper's log_k(n)).
    """
    torch.manual_seed(seed)
    sequential = {
        "self-attention": SelfAttention(8),
        "recurrent": Recurrent(8, unrolled=True),
        "convolutional": Convolutional(8),
        "restricted": SelfAttention(8, "window", radius),
    }
    connecting = {
        "self-attention": lambda number: SelfAttention(8),
        "recurrent": lambda number: Recurrent(8, unrolled=True),
        "convolutional": lambda number: Convolutional(8, KERNEL**number),
        "convolutional, contiguous": lambda number: Convolutional(8),
        "restricted": lambda number: SelfAttention(8, "window", radius),
    }
    inputs = {n: torch.randn(1, n, 8, requires_grad=True) for n in lengths}
    return {
        "lengths": lengths,
        "chain": {kind: [chain(layer(inputs[n])) for n in lengths] for kind, layer in sequential.items()},
        "layers": {kind: [layers_to_connect(build, n) for n in lengths] for kind, build in connecting.items()},
    }


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the rows for paths and cost."""
    return [
        MeasuredRow(
            _PATHS,
            "sequential operations and paths",
            measure_paths,
            {"lengths": _LENGTHS, "radius": _RADIUS},
            "table1",
        ),
        *complexity.rows(scale),
    ]


def find(results: Results) -> Finding:
    """Compare the paper's formulas with what is counted."""
    return Finding([_paper_table(results)], [], [_path_claim(results)])


def _paper_table(results: Results) -> Table:
    record = results.first(_PATHS)
    lines = []
    for kind, layer in KINDS.items():
        paper = next(row for row in TABLE_1 if row.name == layer.paper)
        measured = ("not run yet", "not run yet")
        if record is not None:
            measured = tuple(
                ", ".join(str(value) for value in record.result[part][kind]) for part in ("chain", "layers")
            )
        lines.append((paper.name, paper.complexity, paper.sequential, measured[0], paper.path, measured[1]))
    if record is not None:
        contiguous = ", ".join(str(value) for value in record.result["layers"]["convolutional, contiguous"])
        lines.append(("Convolutional, contiguous kernels", "", "", "", "O(n/k)", contiguous))
    lengths = ", ".join(str(n) for n in _LENGTHS)
    return Table(
        f"Table 1 of the paper, and counted here for n = {lengths}",
        (
            "layer type",
            "complexity",
            "sequential operations",
            "longest chain",
            "path length",
            "layers to connect",
        ),
        tuple(lines),
        "Longest chain: operations of one layer that wait for each other, in torch's own graph. Layers to connect: "
        f"until the last position's gradient reaches the first; kernels of {KERNEL}, dilated by powers of {KERNEL} for "
        f"the paper's log_k(n); restricted to |i - j| < {_RADIUS}. A recurrent layer needs one, through a chain that "
        "grows.",
    )


def _path_claim(results: Results) -> Claim:
    text = "Self-attention connects all positions in a constant number of operations, a recurrent layer in O(n)"
    record = results.first(_PATHS)
    if record is None:
        return Claim(text, "not run yet", "`headwise reproduce table1` takes a minute.")
    chains, layers = record.result["chain"], record.result["layers"]
    attention, recurrent = chains["self-attention"], chains["recurrent"]
    holds = len(set(attention)) == 1 and set(layers["self-attention"]) == {1}
    growth_ratio = (recurrent[-1] - recurrent[-2]) / (recurrent[-2] - recurrent[-3])
    because = (
        f"From n = {_LENGTHS[0]} to {_LENGTHS[-1]} its longest chain stays at {attention[-1]} operations, while the "
        f"recurrent layer's grows from {recurrent[0]} to {recurrent[-1]}."
    )
    return Claim(text, decide(holds and 1.9 < growth_ratio < 2.1), because)


EXPERIMENT = Experiment("table1", "Table 1: complexity and paths", rows, find)

"""Table 1 measured: time, operations and memory of one layer of each kind against length n and width d.

Each of the four layer types is reduced to the operation that mixes positions. What all of them share (projections,
feed-forward) is left out, as in the paper's table. A multiplication and the addition after it count as two operations:
the paper's n²·d for self-attention is 4·n²·d here, because the scores and the weighted sums of values take one matrix
product each.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from headwise.config.model import AttentionOptions, WindowConfig
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import TABLE_1
from headwise.experiments.scales import Scale
from headwise.nn.attention import attend
from headwise.nn.memory import saved_bytes
from headwise.nn.recurrent import Recurrence

_ROW = "complexity"
_LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
_WIDTHS = (64, 128, 256, 512, 1024)
_LENGTH, _WIDTH = 256, 256  # fixed while the other varies
_FASTER = 1.2  # times as fast, from which a difference isn't the clock's
_COLORS = {"self-attention": "C0", "recurrent": "C3", "convolutional": "C2", "restricted": "C4"}
HEADS, KERNEL, RADIUS = 8, 3, 16
# The paper's neighborhood of size r, as a window of RADIUS: |i - j| < RADIUS on both sides.
NEIGHBORHOOD = 2 * RADIUS - 1


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √d_k) V without projections; `kind` as in `headwise.nn.attention`."""

    def __init__(self, d: int, kind: str = "reference", radius: int = RADIUS) -> None:
        super().__init__()
        self.kind = kind
        self.options = AttentionOptions(window=WindowConfig(size=radius))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, n, d)."""
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        mixed = attend(heads, heads, heads, kind=self.kind, options=self.options)
        return mixed.transpose(1, 2).flatten(2)


class Recurrent(nn.Module):
    """A GRU layer; if `unrolled`, it runs step by step in Python, so that torch records each operation."""

    def __init__(self, d: int, unrolled: bool = False) -> None:
        super().__init__()
        self.layer, self.unrolled = Recurrence("gru", d, d), unrolled

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, n, d)."""
        state = (x.new_zeros(x.size(0), x.size(2)),)
        if not self.unrolled:
            return self.layer.run(x, state)
        weights, outputs = self.layer.weights(x.dtype), []
        for x_t in x.unbind(1):
            state = Recurrence.step(x_t, state, weights)
            outputs.append(state[0])
        return torch.stack(outputs, dim=1)


class Convolutional(nn.Module):
    """A causal convolution of width 3 over all channels, zero-padded before the first position.

    It is causal so that dilations 1, k, k², … reach every distance below k^layers without leaving the sequence.
    """

    def __init__(self, d: int, dilation: int = 1) -> None:
        super().__init__()
        self.dilation = dilation
        self.weight = nn.Parameter(torch.randn(d, d, KERNEL) / math.sqrt(d * KERNEL))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, n, d)."""
        padded = functional.pad(x.transpose(1, 2), ((KERNEL - 1) * self.dilation, 0))
        return functional.conv1d(padded, self.weight, dilation=self.dilation).transpose(1, 2)


@dataclass(frozen=True)
class LayerKind:
    """A layer type: its name in the paper, a constructor for a width, and its operations as a function of n and d."""

    paper: str  # name in `paper.TABLE_1`
    build: Callable[[int], nn.Module]
    flops: Callable[[int, int], int]
    formula: str


KINDS: Mapping[str, LayerKind] = {
    "self-attention": LayerKind("Self-Attention", SelfAttention, lambda n, d: 4 * n * n * d, "4·n²·d"),
    "recurrent": LayerKind("Recurrent", Recurrent, lambda n, d: 12 * n * d * d, "12·n·d² (GRU)"),
    "convolutional": LayerKind("Convolutional", Convolutional, lambda n, d: 2 * KERNEL * n * d * d, "2·k·n·d², k = 3"),
    "restricted": LayerKind(
        "Self-Attention (restricted)",
        lambda d: SelfAttention(d, "window"),
        lambda n, d: 4 * NEIGHBORHOOD * n * d,
        "4·r·n·d, r = 31",
    ),
}


def longest_chain(output: Tensor) -> int:
    """Return the number of operations on the longest path through a tensor's autograd graph."""
    depth: dict[object, int] = {}
    stack = [output.grad_fn]
    while stack:
        node = stack[-1]
        assert node is not None
        predecessors = [inner for inner, _ in node.next_functions if inner is not None]
        unvisited = [inner for inner in predecessors if inner not in depth]
        if unvisited:
            stack += unvisited
            continue
        depth[node] = 1 + max((depth[inner] for inner in predecessors), default=0)
        stack.pop()
    assert output.grad_fn is not None
    return depth[output.grad_fn]


def layers_to_connect(build: Callable[[int], nn.Module], n: int, most: int = 1000) -> int:
    """Return how many layers are needed until the last output depends on the first input: ∂output_n/∂input_1 ≠ 0.

    `build` makes layer number 0, 1, 2, …, all of width 8.
    """
    torch.manual_seed(0)
    x = torch.randn(1, n, 8, dtype=torch.float64, requires_grad=True)
    output = x
    for number in range(most):
        output = build(number).double()(output)
        (gradient,) = torch.autograd.grad(output[0, -1].sum(), x, retain_graph=True)
        if gradient[0, 0].abs().max() > 0:
            return number + 1
    raise AssertionError(f"positions 1 and {n} aren't connected by {most} layers")


def measure(
    *, seed: int, lengths: Sequence[int], widths: Sequence[int], length: int, width: int, repeats: int
) -> dict[str, Any]:
    """Time forward and backward passes of every kind of layer: one thread, batch size 1, the best of `repeats` runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    try:
        shapes = [(n, width) for n in lengths] + [(length, d) for d in widths if d != width]
        points = [_point(kind, n, d, repeats) for n, d in shapes for kind in KINDS]
    finally:
        torch.set_num_threads(threads)
    return {"points": points}


def _point(kind: str, n: int, d: int, repeats: int) -> dict[str, Any]:
    layer = KINDS[kind].build(d)
    x = torch.randn(1, n, d, requires_grad=True)
    best = float("inf")
    for _ in range(repeats + 1):  # the first run is a warm-up
        began = time.perf_counter()
        layer(x).sum().backward()
        best = min(best, time.perf_counter() - began)
    return {
        "kind": kind,
        "n": n,
        "d": d,
        "milliseconds": 1000 * best,
        "kept_bytes": saved_bytes(layer, lambda: layer(x))[1],
        "formula": KINDS[kind].flops(n, d),
        "counted": counted(kind, n, d),
    }


def counted(kind: str, n: int, d: int) -> int:
    """Return torch's operation count of a forward pass; a recurrent layer is unrolled, as fused ones aren't counted."""
    layer = KINDS[kind].build(d)
    if kind == "recurrent":
        layer.unrolled = True  # type: ignore[assignment]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, n, d))
    return counter.get_total_flops()


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the one measurement, the same at every scale."""
    settings = {"lengths": _LENGTHS, "widths": _WIDTHS, "length": _LENGTH, "width": _WIDTH, "repeats": 3}
    return [MeasuredRow(_ROW, "layers against n and d", measure, settings, "complexity")]


def series(points: Sequence[dict[str, Any]], kind: str, along: str) -> list[dict[str, Any]]:
    """Return a kind's points sorted along `n` (at the fixed width) or `d` (at the fixed length)."""
    fixed = ("d", _WIDTH) if along == "n" else ("n", _LENGTH)
    points_of_kind = [p for p in points if p["kind"] == kind and p[fixed[0]] == fixed[1]]
    return sorted(points_of_kind, key=lambda p: p[along])


def find(results: Results) -> Finding:
    """Fit exponents of n and d, and compare them with the paper's table."""
    record = results.first(_ROW)
    text = "Self-attention's operations grow with n²·d, the others' linearly in n and with d² (restricted attention: d)"
    faster_text = "Self-attention is faster than a recurrent layer where n is smaller than d"
    if record is None:
        hint = "`headwise reproduce complexity` takes a minute."
        return Finding(claims=[Claim(text, "not run yet", hint), Claim(faster_text, "not run yet", hint)])
    points = record.result["points"]
    table = Table(
        f"One layer, forward and backward, one thread; d = {_WIDTH} where n varies, n = {_LENGTH} where d varies",
        (
            "kind",
            "paper",
            "counted here",
            "n^",
            "d^",
            "time: n^",
            "d^",
            "ms at n = 64",
            "n = 2,048",
            "kept MB",
        ),
        tuple(_table_row(points, kind) for kind in KINDS),
        "Exponents are slopes on logarithmic axes: of the operations that torch counts, and of the time from n = 256 "
        "and d = 256 on, where overheads no longer hide it. Kept: what the forward pass at n = 2,048 keeps for the "
        "backward. Restricted attention works in blocks, which hold twice the pairs that the formula counts.",
    )
    exact = [p for p in points if p["kind"] != "restricted"]
    equal = all(p["formula"] == p["counted"] for p in exact)
    exponents = {kind: _exponent(points, kind, "n", "counted", 0) for kind in KINDS}
    holds = equal and abs(exponents["self-attention"] - 2) < 0.05 and abs(exponents["restricted"] - 1) < 0.2
    because = (
        f"{'All' if equal else 'Not all'} {len(exact)} counts of the three exact kinds equal the formula; operations "
        "grow " + ", ".join(f"as n^{value:.2f} ({kind})" for kind, value in exponents.items()) + "."
    )
    claims = [Claim(text, decide(holds), because), _faster_claim(points, faster_text)]
    return Finding([table], [_chart(points)], claims)


def _faster_claim(points: Sequence[dict[str, Any]], text: str) -> Claim:
    times = {kind: {p["n"]: p["milliseconds"] for p in series(points, kind, "n")} for kind in KINDS}
    short = [n for n in times["recurrent"] if n < _WIDTH]
    ratios = [times["recurrent"][n] / times["self-attention"][n] for n in short]
    crossing = [n for n in times["recurrent"] if times["self-attention"][n] > times["recurrent"][n]]
    crossing_text = f"from n = {min(crossing):,} on it is slower" if crossing else "it isn't overtaken up to n = 2,048"
    because = (
        f"For n from {min(short)} to {max(short)} and d = {_WIDTH} it is {min(ratios):.1f} to {max(ratios):.1f} times "
        f"as fast as a GRU on one thread; {crossing_text}."
    )
    if min(ratios) < _FASTER and max(ratios) > 1 / _FASTER:
        return Claim(text, "undecided", f"{because} A difference below {_FASTER - 1:.0%} may be the clock's.")
    return Claim(text, decide(min(ratios) > 1), because)


def _table_row(points: Sequence[dict[str, Any]], kind: str) -> tuple[str, ...]:
    by_length = {p["n"]: p for p in series(points, kind, "n")}
    paper = next(row for row in TABLE_1 if row.name == KINDS[kind].paper)
    return (
        kind,
        paper.complexity,
        KINDS[kind].formula,
        f"{_exponent(points, kind, 'n', 'counted', 0):.2f}",
        f"{_exponent(points, kind, 'd', 'counted', 0):.2f}",
        f"{_exponent(points, kind, 'n', 'milliseconds', _LENGTH):.2f}",
        f"{_exponent(points, kind, 'd', 'milliseconds', _WIDTH):.2f}",
        f"{by_length[64]['milliseconds']:.2f}",
        f"{by_length[2048]['milliseconds']:.0f}",
        f"{by_length[2048]['kept_bytes'] / 1e6:,.1f}",
    )


def _exponent(points: Sequence[dict[str, Any]], kind: str, along: str, key: str, start: int) -> float:
    """Return the exponent b of key ~ along^b, by least squares on logarithms, from `start` on."""
    points_from_start = [p for p in series(points, kind, along) if p[along] >= start]
    logarithms = ([math.log(p[name]) for p in points_from_start] for name in (along, key))
    return statistics.linear_regression(*logarithms).slope


def _chart(points: Sequence[dict[str, Any]]) -> Chart:
    def draw(figure: Figure) -> None:
        panels = (
            ("n", "milliseconds", "ms, forward and backward"),
            ("d", "milliseconds", ""),
            ("n", "kept_bytes", ""),
        )
        titles = (f"time, d = {_WIDTH}", f"time, n = {_LENGTH}", f"memory kept (MB), d = {_WIDTH}")
        for axis, (along, key, label), title in zip(figure.subplots(1, 3), panels, titles, strict=True):
            plain(axis)
            for kind, x, y in _curves(points, along, key):
                axis.plot(x, y, "o-", color=_COLORS[kind], label=kind, markersize=4)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set(xlabel=along, ylabel=label, title=title)
        figure.axes[0].legend(frameon=False, fontsize=8)

    return Chart("complexity", "Time and memory of one layer of each kind against length and width", draw, (10, 3.4))


def _curves(points: Sequence[dict[str, Any]], along: str, key: str) -> Iterator[tuple[str, list[int], list[float]]]:
    divisor = 1e6 if key == "kept_bytes" else 1.0
    for kind in KINDS:
        points_of_kind = series(points, kind, along)
        yield kind, [p[along] for p in points_of_kind], [p[key] / divisor for p in points_of_kind]


EXPERIMENT = Experiment("complexity", "Time and memory of a layer", rows, find)

"""Speed of the float32 matrix products of a training step on this CPU, by each way to compute them.

Example: python -m benchmarks products --preset tiny --threads 1
Example: python -m benchmarks products --inputs 512 --outputs 2048 --rows 4096 --threads 2

For each linear map of a Transformer: its output (y = x Wᵀ + b), the gradient of its inputs (dX = G W) and of its
weights (dW = Gᵀ x). The ways take turns, and each turn has another number of rows, as batches have; oneDNN compiles
code for each number. Prints GFLOP/s of torch (median) and the speed of the others relative to torch (median of the
ratios within a turn); with one thread by processor time, which other programs hardly change.

Ways: torch's BLAS (usually MKL), oneDNN as it is contained in torch (`torch.ops.mkldnn._linear_pointwise`; the
gradient of the weights copies both factors), and Headwise's native library.

Environment variables that restrict a processor with AVX-512 to AVX2:
ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from benchmarks import command_line
from headwise.config.presets import PRESETS, preset
from headwise.native.library import Library, find_library
from headwise.nn.linear import GemmBackend
from headwise.nn.native_gemm import NativeGemm

CHUNK_ELEMENTS, LEAST_CHUNK = 5_000_000, 512  # rows of the output projection, as in headwise/training/loss.py


class OneDNN(GemmBackend):
    """oneDNN's inner product: A Bᵀ + b for contiguous A."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    def input_gradient(self, gradient: Tensor, weight: Tensor) -> Tensor:
        return self.forward(gradient, weight.t())

    def weight_gradient(self, gradient: Tensor, x: Tensor) -> Tensor:
        return self.forward(gradient.t(), x.t())


def main(arguments: Sequence[str]) -> int:
    parser = command_line("products", __doc__)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=2048, help="tokens of a batch in each process")
    parser.add_argument("--inputs", type=int, help="with --outputs: this linear map alone")
    parser.add_argument("--outputs", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    ways = find_ways()
    print(f"{torch.backends.cpu.get_cpu_capability()}, threads: {options.threads}, torch {torch.__version__}")
    print(f"{'rows x inputs x outputs':<24} {'':3} {'torch':>8}" + "".join(f"{w:>9}" for w in ways if w != "torch"))
    with torch.no_grad():
        for rows, inputs, outputs in shapes(options):
            measure(rows, inputs, outputs, ways, options.turns)
    return 0


def find_ways() -> dict[str, GemmBackend]:
    """Return the ways that this installation has."""
    ways: dict[str, GemmBackend] = {"torch": GemmBackend()}
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        ways["oneDNN"] = OneDNN()
    else:
        print("oneDNN: this build of torch lacks mkldnn::_linear_pointwise", file=sys.stderr)
    library = find_library()
    if isinstance(library, Library):
        ways["native"] = NativeGemm(library)
    else:
        print(f"native: {library}", file=sys.stderr)
    return ways


def shapes(options: argparse.Namespace) -> list[tuple[int, int, int]]:
    """Return (rows, inputs, outputs) of the linear maps."""
    if options.inputs and options.outputs:
        return [(options.rows, options.inputs, options.outputs)]
    model = preset(options.preset)
    d, ff, rows = model.d_model, model.d_ff, options.rows
    chunk = min(rows, max(LEAST_CHUNK, CHUNK_ELEMENTS // options.vocabulary))
    return [(rows, d, 3 * d), (rows, d, d), (rows, d, ff), (rows, ff, d), (chunk, d, options.vocabulary)]


def measure(rows: int, inputs: int, outputs: int, ways: dict[str, GemmBackend], turns: int) -> None:
    """Print the speed of the products of one linear map, one line for each direction."""
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
    random = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(rows, width, generator=random) for width in (inputs, outputs))
    weight, bias = torch.randn(outputs, inputs, generator=random), torch.randn(outputs, generator=random)
    directions = {
        "y": lambda way, n: way.forward(x[:n], weight, bias),
        "dX": lambda way, n: way.input_gradient(gradient[:n], weight),
        "dW": lambda way, n: way.weight_gradient(gradient[:n], x[:n]),
    }
    for name, compute in directions.items():
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(turns + 1):
            for way, products in ways.items() if turn % 2 else reversed(ways.items()):
                began = clock()
                compute(products, rows - turn)
                times[way].append(clock() - began)
        # The first time of each is a warm-up.
        speed = 2 * rows * inputs * outputs / statistics.median(times["torch"][1:]) / 1e9
        line = f"{f'{rows:,} x {inputs:,} x {outputs:,}':<24} {name:3} {speed:8.1f}"
        for way in ways:
            if way != "torch":
                ratios = [t / w for t, w in zip(times["torch"][1:], times[way][1:], strict=True)]
                line += f"{statistics.median(ratios):9.2f}"
        print(line, flush=True)

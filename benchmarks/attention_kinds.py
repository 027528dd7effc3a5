"""Every attention kind by sequence length: time of a forward and backward pass, and what it keeps between the two.

Run `python benchmarks/attention_kinds.py` on a quiet machine; times are medians in milliseconds, and what autograd
keeps is in MiB. Causal self-attention of one sequence, 4 heads of 32, with the options' defaults.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import Tensor

from headwise.nn.attention import attend, attention_kinds

HEADS, WIDTH = 4, 32
ALL_PAIRS_UP_TO = 4096  # longer, the kinds that write all scores out need gigabytes


def measure(kind: str, length: int) -> tuple[float, float]:
    """Return milliseconds and MiB of one pass."""
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for _ in range(3))
    kept: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    began = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = attend(q, k, v, kind=kind, causal=True)
    out.sum().backward()
    return 1e3 * (time.perf_counter() - began), sum(kept.values()) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096, 16384])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads, {HEADS} heads of {WIDTH}")
    print(f"{'length':>6} {'kind':>17} {'ms':>9} {'MiB kept':>9}")
    for length in options.lengths:
        for kind in (known.name for known in attention_kinds()):
            if kind in ("reference", "fused") and length > ALL_PAIRS_UP_TO:
                continue
            rounds = [measure(kind, length) for _ in range(options.rounds)]
            print(
                f"{length:>6} {kind:>17} {statistics.median(r[0] for r in rounds):>9.1f} {rounds[0][1]:>9.1f}"
            )


if __name__ == "__main__":
    main()

"""Plain matrix products against torch's fused attention, forward and backward, by sentence length.

`headwise.nn.attention.fused` takes the plain form on a CPU up to a length that this table sets. Run
`python benchmarks/attention_backends.py` on a quiet machine; times are medians in milliseconds, the two in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

TOKENS, HEADS, WIDTH = 4096, 4, 32  # a batch of the tiny preset


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The short path of the `fused` kind."""
    return ((q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v


def milliseconds(attention: Callable[..., Tensor], length: int, dtype: torch.dtype) -> float:
    """Time one forward and backward pass of a batch of `TOKENS` tokens."""
    shape = (max(1, TOKENS // length), HEADS, length, WIDTH)
    q, k, v = (torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3))
    began = time.perf_counter()
    attention(q, k, v).sum().backward()
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads, {TOKENS} tokens, {HEADS} heads of {WIDTH}")
    print(f"{'length':>6} {'dtype':>9} {'plain ms':>9} {'fused ms':>9} {'fused/plain':>12}")
    for dtype in (torch.float32, torch.bfloat16):
        for length in (16, 32, 64, 128, 256, 512):
            times: dict[str, list[float]] = {"plain": [], "fused": []}
            for _ in range(options.rounds):
                times["plain"].append(milliseconds(plain, length, dtype))
                times["fused"].append(milliseconds(functional.scaled_dot_product_attention, length, dtype))
            a, b = (statistics.median(times[name]) for name in ("plain", "fused"))
            print(f"{length:>6} {str(dtype)[6:]:>9} {a:>9.2f} {b:>9.2f} {b / a:>12.2f}")


if __name__ == "__main__":
    main()

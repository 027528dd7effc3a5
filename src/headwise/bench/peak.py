"""What the device can do at best: bfloat16 matrix products, measured where the program runs."""

from __future__ import annotations

import json
import subprocess
import sys

_SIZE = {"cpu": 1024, "cuda": 8192}
_REPEATS = 20


def matrix_flops(device: str) -> float:
    """Return bfloat16 FLOP/s of large matrix products with all threads, the best of many; measured in a process."""
    done = subprocess.run(
        [sys.executable, "-m", "headwise.bench.peak", device], check=True, capture_output=True, text=True
    )
    return float(json.loads(done.stdout))


def _measure(device: str) -> float:
    import time

    import torch

    size = _SIZE["cpu" if device == "cpu" else "cuda"]
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    b = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(_REPEATS):
        began = time.perf_counter()
        torch.matmul(a, b)
        if device != "cpu":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))

"""Peak performance of the device: FLOP/s of large matrix products."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from headwise.processes import child_environment, python_command

_SIZE = {"cpu": 1024, "cuda": 8192}  # of square matrices
_SECONDS = 1.0  # of measuring


def matrix_flops(device: str, threads: int, precision: str) -> float:
    """Return the FLOP/s of the fastest matrix product in `precision` within a second, measured in a new process."""
    arguments = json.dumps([device, threads, precision])
    process = subprocess.run(
        python_command("-m", "benchmarks.systems.peak", arguments),
        env=child_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(process.stdout))


def _measure(device: str, threads: int, precision: str) -> float:
    import torch

    from headwise.nn.device import PRECISIONS

    torch.set_num_threads(threads)
    dtype = PRECISIONS[precision]
    size = _SIZE["cpu" if device == "cpu" else "cuda"]
    a = torch.randn(size, size, device=device, dtype=dtype)
    b = torch.randn(size, size, device=device, dtype=dtype)
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        torch.matmul(a, b)
        if device != "cpu":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


if __name__ == "__main__":
    print(json.dumps(_measure(*json.loads(sys.argv[1]))))

"""Choice of device and precision, number of threads, and memory of the process."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from headwise.errors import ConfigError, DeviceError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_MANY = 100_000  # least elements of activations with which a CPU is faster in bfloat16


def find_device(name: str = "auto") -> torch.device:
    """Return the device `name`: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the first GPU, else the CPU.

    Raises `DeviceError` if it isn't available, naming the devices that are.
    """
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available += ["mps"]
    if name == "auto":
        return torch.device(available[1] if len(available) > 1 else "cpu")
    if name not in available:
        raise DeviceError(f"device: expected auto or one of {', '.join(available)} on this machine, found {name!r}")
    return torch.device(name)


def use_threads(count: int) -> None:
    """Set the number of threads of PyTorch's operations; 0 keeps PyTorch's default."""
    if count:
        torch.set_num_threads(count)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Return whether `device` has hardware support for bfloat16 matrix products.

    If `ATEN_CPU_CAPABILITY` limits the instruction set to one below AVX-512, the answer is False.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # Private functions of torch (2.7 to 2.13); if a version lacks them, no support is assumed.
        probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        supported = any(getattr(torch.cpu, probe, bool)() for probe in probes)
        return supported and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return False


def find_precision(name: str, device: torch.device, elements: int = _MANY) -> torch.dtype:
    """Return the dtype of the activations; `auto` is bfloat16 if `device` supports it in hardware, else float32.

    On a CPU, `auto` is float32 for activations of fewer than 100,000 `elements` (tokens · d_model), too: there,
    conversions and the code that oneDNN compiles for each shape cost more than products gain. Raises `ConfigError` for
    an unknown name.
    """
    if name == "auto":
        few = device.type == "cpu" and elements < _MANY
        return torch.bfloat16 if has_fast_bfloat16(device) and not few else torch.float32
    if name not in PRECISIONS:
        raise ConfigError(f"precision: expected auto, {' or '.join(PRECISIONS)}, found {name!r}")
    return PRECISIONS[name]


def sum_dtype(x: torch.Tensor) -> torch.dtype:
    """Return the dtype of sums over `x`: float32, or float64 if `x` is float64."""
    return torch.promote_types(x.dtype, torch.float32)


# Parameters of glibc's mallopt, and their values in bytes.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 2**31 - 1, 2**25  # 2**25 is the largest mmap threshold that glibc accepts


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory in the process for later tensors; returns whether that is possible here.

    A training step frees hundreds of megabytes and allocates them again. By default glibc returns them to the system
    in between, which then has to map and clear every page again: 7 % of a small model's time.
    """
    mallopt = _from_libc("mallopt")
    return mallopt is not None and bool(
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES) and mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
    )


def keep_compiled_products() -> None:
    """Let oneDNN keep its code for all shapes of a training; has no effect after the first product of the process.

    oneDNN compiles each product of a new shape in bfloat16, for milliseconds, and keeps 1,024 unless told otherwise.
    Multi30k's batches have about 4,000 shapes in a Transformer, which trains 1.3 times as fast if none is compiled
    twice. In a recurrent model most shapes come once, whatever is kept; each takes up to 1 MB.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")


def give_back_freed_memory() -> None:
    """Return unused memory of this process to the system, if glibc is there.

    Batches of varying shapes fragment the heap around long-lived allocations (oneDNN keeps thousands of compiled
    products), so the memory of a training run grows for thousands of steps. An occasional call has no noticeable cost.
    """
    trim = _from_libc("malloc_trim")
    if trim is not None:
        trim(0)


def _from_libc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None if it has none of that name or the system isn't Linux."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


def describe_hardware() -> dict[str, Any]:
    """Return the name of the processor, the number of threads of PyTorch, and the names of the GPUs."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {"processor": _processor(), "threads": torch.get_num_threads(), "gpus": gpus}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

"""Which device and which arithmetic to compute with."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

import torch

from headwise.errors import ConfigError, DeviceError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def find_device(name: str = "auto") -> torch.device:
    """Return the device called `name`: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the first GPU there is.

    Raises `DeviceError` where it isn't there, naming those that are.
    """
    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there += ["mps"]
    if name == "auto":
        return torch.device(there[1] if len(there) > 1 else "cpu")
    if name not in there:
        raise DeviceError(
            f"device: expected auto or one of {', '.join(there)} on this machine, found {name!r}"
        )
    return torch.device(name)


def use_threads(count: int) -> None:
    """Let PyTorch use `count` threads for one product; 0 leaves the number to it."""
    if count:
        torch.set_num_threads(count)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_fast_bfloat16(device: torch.device) -> bool:
    """Tell whether bfloat16 matrix products run in hardware on `device`.

    A processor that `ATEN_CPU_CAPABILITY` makes act as an older one has what the older one has.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # torch (2.7 to 2.13) keeps these to itself; a version without them is taken for a processor without them.
        probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        there = any(getattr(torch.cpu, probe, bool)() for probe in probes)
        return there and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return False


def find_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of the activations; `auto` is bfloat16 where `device` multiplies it in hardware.

    Raises `ConfigError` for a name that isn't known.
    """
    if name == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    if name not in PRECISIONS:
        raise ConfigError(f"precision: expected auto, {' or '.join(PRECISIONS)}, found {name!r}")
    return PRECISIONS[name]


def sum_dtype(x: torch.Tensor) -> torch.dtype:
    """Return the dtype to sum in: float32, or float64 where `x` is."""
    return torch.promote_types(x.dtype, torch.float32)


# Parameters of glibc's mallopt, and how much it may keep.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT, _LARGEST_KEPT = 2**31 - 1, 2**25  # bytes; the second is the most that glibc accepts


def keep_freed_memory() -> bool:
    """Let this process keep the memory that tensors leave for those to come; returns whether that is possible here.

    A training step frees hundreds of megabytes and asks for them again. glibc would give them back to the system in
    between, and every page of them be fetched and cleared anew: 7 % of a small model's time.
    """
    mallopt = _from_libc("mallopt")
    return mallopt is not None and bool(
        mallopt(_M_TRIM_THRESHOLD, _KEPT) and mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)
    )


def give_back_freed_memory() -> None:
    """Give the system the memory that this process has no use for at the moment, where that is possible.

    Batches of ever other shapes leave gaps between what stays (oneDNN keeps a thousand compiled products), so that
    the memory of a training grows for thousands of steps. Now and then this costs nothing that can be noticed.
    """
    trim = _from_libc("malloc_trim")
    if trim is not None:
        trim(0)


def _from_libc(name: str) -> Callable[..., int] | None:
    """Return a function of glibc's; None where there is another C library."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None

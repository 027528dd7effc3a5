"""Memory of this machine and process, and the check that a model fits before it is built."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from headwise.config import ModelConfig
from headwise.errors import ConfigError

Output = TypeVar("Output")

TRAINING = 16  # bytes per parameter in training: parameter, gradient and two Adam moments, each in float32
LOADING = 4  # bytes per parameter in inference
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int | None:
    """Return the bytes of memory available to a process, swap space included; None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        limits = [sizes["MemTotal"] + sizes["SwapTotal"]]
    except (OSError, KeyError, ValueError, IndexError):
        try:
            limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
        except (AttributeError, OSError, ValueError):
            return None
    for file in map(Path, _CONTAINER_LIMITS):
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # no such file, or its content is "max"
            continue
    return min(limits)


class PeakMemory:
    """The largest resident memory of this process from now on, as the kernel counts it; only Linux tells it.

    Attributes:
        before: bytes that are resident now; None if unknown.
    """

    def __init__(self) -> None:
        """Begin at the resident memory of now."""
        self.before: int | None = None
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the largest resident set becomes that of now
            self.before = _resident_sets()["VmRSS"]
        except (OSError, KeyError):
            return

    def largest(self) -> int | None:
        """Return the largest resident memory since then in bytes; None if unknown."""
        return None if self.before is None else _resident_sets()["VmHWM"]


def _resident_sets() -> dict[str, int]:
    """Return the bytes of the present (VmRSS) and the largest resident set (VmHWM) of this process."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[-1:] == ["kB"]}


def saved_bytes(module: nn.Module, compute: Callable[[], Output]) -> tuple[Output, int]:
    """Call `compute`; return its output and the bytes that it saves for the backward pass.

    A storage that is saved several times counts once, and the parameters of `module` don't count.
    """
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = compute()  # keeps what is saved alive, so that no address is used twice
    return output, sum(saved.values())


def check_fits(
    build: Callable[[], nn.Module], config: ModelConfig, vocabulary: int, device: torch.device, *, each: int
) -> None:
    """Raise `ConfigError` if a model needs more memory than is available, at `each` bytes per parameter.

    `build` is called on torch's meta device, and only if an upper bound of the parameter count doesn't fit, because
    the first model on that device costs two seconds. `vocabulary` is the vocabulary size for the upper bound.
    """
    bounds = [(machine_memory(), LOADING if device.type == "cuda" else each, "this machine")]
    if device.type == "cuda":
        bounds.append((torch.cuda.get_device_properties(device).total_memory, each, str(device)))
    for memory, size, place in bounds:
        if memory is None or _upper_bound(config, vocabulary) * size <= memory:
            continue
        with torch.device("meta"):
            model = build()
        parameters = sum(p.numel() for p in model.parameters())
        buffer_bytes = sum(b.numel() * b.element_size() for b in model.buffers())
        if parameters * size + buffer_bytes > memory:
            raise ConfigError(
                f"model: expected one that fits the {_gigabytes(memory)} of {place}, found {parameters:,} parameters, "
                f"which need {_gigabytes(parameters * size + buffer_bytes)}"
            )


def _upper_bound(config: ModelConfig, vocabulary: int) -> int:
    """Return an upper bound of the number of parameters and constants, for any architecture and kind of attention."""
    width = max(
        config.d_model,
        config.heads * max(config.key_size, config.value_size),
        config.recurrent.size or 0,
        config.convolutional.channels or 0,
        config.attention_options.state_space.size,
    )
    kernel = config.convolutional.kernel if config.architecture == "convolutional" else 1
    distances = 2 * max(config.position_options.relative.reach, config.position_options.t5.buckets) + 1
    layer = 24 * width * width * kernel + 4 * width * config.d_ff + 2 * distances * width
    layers = config.encoder_layers + config.decoder_layers
    return layers * layer + 4 * (vocabulary + config.max_length + config.segments) * width


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"

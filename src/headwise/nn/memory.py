"""Whether a model fits this machine, asked before it is built: numbers that are fine one by one may not be together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from headwise.config import ModelConfig
from headwise.errors import ConfigError

TRAINING = (
    16  # bytes of a parameter in training: itself, its gradient, and Adam's two moments, each in float32
)
LOADING = 4  # … and where it is only used
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def machine_memory() -> int | None:
    """Return the bytes that a process may have here, swap space included; None where that can't be told."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {
            name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)
        }
        found = [sizes["MemTotal"] + sizes["SwapTotal"]]
    except (OSError, KeyError, ValueError, IndexError):
        try:
            found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
        except (AttributeError, OSError, ValueError):
            return None
    for file in map(Path, _LIMITS):
        try:
            found.append(int(file.read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return min(found)


def check_fits(
    build: Callable[[], nn.Module], config: ModelConfig, vocabulary: int, device: torch.device, *, each: int
) -> None:
    """Raise `ConfigError` where a model needs more memory than there is, at `each` bytes a parameter.

    `build` is called with torch's meta device, and only for a configuration that by a rough count might not fit: the
    first model built so costs two seconds. The `vocabulary` is that of the rough count.
    """
    bounds = [(machine_memory(), LOADING if device.type == "cuda" else each, "this machine")]
    if device.type == "cuda":
        bounds.append((torch.cuda.get_device_properties(device).total_memory, each, str(device)))
    for memory, size, place in bounds:
        if memory is None or _at_most(config, vocabulary) * size <= memory:
            continue
        with torch.device("meta"):
            model = build()
        numbers = sum(p.numel() for p in model.parameters())
        constants = sum(b.numel() * b.element_size() for b in model.buffers())
        if numbers * size + constants > memory:
            raise ConfigError(
                f"model: expected one that fits the {_gigabytes(memory)} of {place}, found {numbers:,} parameters, "
                f"which need {_gigabytes(numbers * size + constants)}"
            )


def _at_most(config: ModelConfig, vocabulary: int) -> int:
    """Count parameters and constants generously, whatever the architecture and the kinds of attention."""
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

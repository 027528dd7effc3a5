"""Parameters of PyTorch models from and to disk; `headwise export --to run` stores them in 8 or 16 bits.

The format is described in `headwise.weights`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from headwise.files import write_bytes
from headwise.weights import SCALE, Weights, reading


def fill(parameters: Mapping[str, Tensor], weights: Weights) -> None:
    """Copy the tensors of these names into a model's parameters; the shapes must have been checked."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            tensor = weights.get(name)
            assert tensor is not None, name
            parameter.copy_(torch.from_numpy(tensor))


def quantized(name: str, tensor: Tensor, precision: str) -> dict[str, Tensor]:
    """Return the tensors to store for a tensor in `precision`; only matrices are converted to int8 or bfloat16."""
    tensor = tensor.detach().float()
    if tensor.dim() != 2 or precision == "float32":
        return {name: tensor.contiguous()}
    if precision == "bfloat16":
        return {name: tensor.to(torch.bfloat16).contiguous()}
    scale = tensor.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
    rounded = (tensor / scale[:, None]).round().to(torch.int8)
    return {name: rounded.contiguous(), name + SCALE: scale}


def write_quantized(source: Path, target: Path, precision: str) -> None:
    """Write the model in `source` to `target` with its matrices in `precision`; the file's metadata is copied."""
    weights, stored = Weights(source), {}
    for name in sorted(weights.names):
        tensor = weights.get(name)
        assert tensor is not None, name
        stored |= quantized(name, torch.from_numpy(tensor), precision)
    with reading(source), safe_open(source, "np") as file:
        metadata = file.metadata()
    write_bytes(target, save(stored, metadata))

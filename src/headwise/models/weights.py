"""A run's parameters on disk: read one at a time, and stored in 8 or 16 bits where `headwise quantize` wrote them.

An int8 tensor W has one scale a row beside it, `NAME.scale`: row n is W[n] · scale[n], and scale[n] is the largest
magnitude of the row over 127 (symmetric, as in Jacob et al. 2018, section 2). Vectors stay in float32, as they weigh
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.files import write_bytes
from headwise.parsing.json_text import parse_object

_SCALE = ".scale"


class Weights:
    """The tensors of a safetensors file, read when they are asked for, in float32."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises `CheckpointError` where it is missing or damaged."""
        self.path = path
        with _reading(path):
            self._file = safe_open(path, "pt").__enter__()
            stored = list(self._file.keys())
            self._types = {name: self._file.get_slice(name).get_dtype() for name in stored}
        self.names = frozenset(name for name in stored if not self._is_scale(name))

    def _is_scale(self, name: str) -> bool:
        return name.endswith(_SCALE) and self._types.get(name.removesuffix(_SCALE)) == "I8"

    @property
    def precision(self) -> str:
        """How the matrices are stored: float32, bfloat16 or int8."""
        types = set(self._types.values())
        return "int8" if "I8" in types else "bfloat16" if "BF16" in types else "float32"

    def get(self, name: str) -> Tensor | None:
        """Return a tensor in float32; None where there is none of that name."""
        if name not in self.names:
            return None
        with _reading(self.path):
            tensor = self._file.get_tensor(name)
            if tensor.dtype == torch.int8:
                return tensor.float() * self._file.get_tensor(name + _SCALE)[:, None]
        return tensor.float()

    def check(self, shapes: Mapping[str, torch.Size]) -> None:
        """Compare with the shapes that a model has; raises `CheckpointError` for the first tensor that doesn't fit."""
        for name, shape in shapes.items():
            if name not in self.names:
                raise CheckpointError(f"{self.path}: expected tensor {name}, found none of that name")
            found = tuple(self._file.get_slice(name).get_shape())
            if found != tuple(shape):
                raise CheckpointError(f"{self.path}: expected {name} of shape {tuple(shape)}, found {found}")
        if extra := sorted(self.names - set(shapes)):
            raise CheckpointError(
                f"{self.path}: found tensor {extra[0]}, which this configuration has no place for"
            )


def quantized(name: str, tensor: Tensor, precision: str) -> dict[str, Tensor]:
    """Return the tensors that store one in `precision`, int8 or bfloat16; matrices only, others as they are."""
    tensor = tensor.detach().float()
    if tensor.dim() != 2 or precision == "float32":
        return {name: tensor.contiguous()}
    if precision == "bfloat16":
        return {name: tensor.to(torch.bfloat16).contiguous()}
    scale = tensor.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
    rounded = (tensor / scale[:, None]).round().to(torch.int8)
    return {name: rounded.contiguous(), name + _SCALE: scale}


def write_quantized(source: Path, target: Path, precision: str) -> None:
    """Write the model in `source` to `target` with its matrices in `precision`; what it was made from is kept."""
    weights, stored = Weights(source), {}
    for name in sorted(weights.names):
        tensor = weights.get(name)
        assert tensor is not None, name
        stored |= quantized(name, tensor, precision)
    with _reading(source), safe_open(source, "pt") as file:
        metadata = file.metadata()
    write_bytes(target, save(stored, metadata))


def read_recipe(path: Path) -> dict[str, Any]:
    """Return what a model's file says it was made from (`subwords`, `data`, `steps`); empty if it says nothing.

    Raises `CheckpointError` where the file is missing or damaged.
    """
    with _reading(path), safe_open(path, "pt") as file:
        recipe = (file.metadata() or {}).get("headwise", "{}")
    return parse_object(recipe, f"{path}: metadata", error=CheckpointError)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; was this run trained to its end?") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file, found a damaged one ({error})") from None

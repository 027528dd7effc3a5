"""A run's parameters on disk: read one at a time, and stored in 8 or 16 bits where `headwise quantize` wrote them.

An int8 tensor W has one scale a row beside it, `NAME.scale`: row n is W[n] · scale[n], and scale[n] is the largest
magnitude of the row over 127 (symmetric, as in Jacob et al. 2018, section 2). Vectors stay in float32, as they weigh
nothing.
"""

from __future__ import annotations

import math
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
_LONGEST_NAME = 300  # characters
_FLOATS = ("F32", "BF16", "F16", "F64")  # types that are read, as safetensors names them


class Weights:
    """The tensors of a safetensors file, read when they are asked for, in float32.

    What opens has types that can be read, and scales that fit their int8 tensors. `check` compares the shapes with a
    model's, once, for every engine and every task (see `headwise.models.build.fitting`).
    """

    def __init__(self, path: Path) -> None:
        """Open the file; raises `CheckpointError` where it is missing, damaged, or its tensors aren't weights."""
        self.path = path
        with _reading(path):
            self._file = safe_open(path, "pt").__enter__()
            stored = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118 - no dictionary
            self._types = {name: part.get_dtype() for name, part in stored.items()}
            self._shapes = {name: tuple(part.get_shape()) for name, part in stored.items()}
        for name in stored:
            if not name.isprintable() or len(name) > _LONGEST_NAME:
                raise CheckpointError(f"{path}: expected names of tensors in print, found {name[:60]!r}")
        self.names = frozenset(name for name in stored if not self._is_scale(name))
        for name in sorted(self.names):
            self._check_type(name)

    def _is_scale(self, name: str) -> bool:
        return name.endswith(_SCALE) and self._types.get(name.removesuffix(_SCALE)) == "I8"

    def _check_type(self, name: str) -> None:
        found = self._types[name]
        if found != "I8":
            if found not in _FLOATS:
                raise CheckpointError(
                    f"{self.path}: expected {name} in int8 or one of {', '.join(_FLOATS)}, found {found}"
                )
            return
        shape = self._shapes[name]
        if len(shape) != 2:
            raise CheckpointError(
                f"{self.path}: expected {name}, which is in int8, to be a matrix, found shape {shape}"
            )
        scale = name + _SCALE
        if scale not in self._shapes:
            raise CheckpointError(f"{self.path}: expected tensor {scale}, found none of that name")
        if (self._types[scale], self._shapes[scale]) != ("F32", shape[:1]):
            raise CheckpointError(
                f"{self.path}: expected {scale} of type F32 and shape {shape[:1]}, one for each row of {name}, "
                f"found {self._types[scale]} and {self._shapes[scale]}"
            )

    @property
    def precision(self) -> str:
        """How the matrices are stored: float32, bfloat16 or int8."""
        types = set(self._types.values())
        return "int8" if "I8" in types else "bfloat16" if "BF16" in types else "float32"

    def get(self, name: str) -> Tensor | None:
        """Return a tensor in float32, None where there is none of that name.

        Raises `CheckpointError` where one of its numbers isn't finite.
        """
        if name not in self.names:
            return None
        with _reading(self.path):
            tensor = self._file.get_tensor(name)
            if tensor.dtype == torch.int8:
                tensor = tensor.float() * self._file.get_tensor(name + _SCALE)[:, None]
        tensor = tensor.float()
        check_finite(f"{self.path}: {name}", tensor)
        return tensor

    def check(self, shapes: Mapping[str, torch.Size], within: str = "") -> None:
        """Compare with the shapes that a model has; raises `CheckpointError` for the first tensor that doesn't fit.

        Other tensors, whose names don't begin with `within`, may be there or not.
        """
        for name, shape in shapes.items():
            if name not in self.names:
                raise CheckpointError(f"{self.path}: expected tensor {name}, found none of that name")
            found = self._shapes[name]
            if found != tuple(shape):
                raise CheckpointError(f"{self.path}: expected {name} of shape {tuple(shape)}, found {found}")
        if extra := sorted(name for name in self.names - set(shapes) if name.startswith(within)):
            raise CheckpointError(
                f"{self.path}: found tensor {extra[0]}, which this configuration has no place for"
            )

    def fill(self, parameters: Mapping[str, Tensor]) -> None:
        """Copy the tensors of these names, of shapes that were checked, into a model's parameters."""
        with torch.no_grad():
            for name, parameter in parameters.items():
                found = self.get(name)
                assert found is not None, name
                parameter.copy_(found)


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise `CheckpointError` where a number of a tensor isn't finite: low precision would hide it."""
    if not tensor.numel():
        return
    extremes = torch.stack(tensor.detach().aminmax())  # NaN where there is one; reads the tensor once
    if not bool(extremes.isfinite().all()):
        found = next(value for value in extremes.tolist() if not math.isfinite(value))
        raise CheckpointError(f"{name}: expected finite numbers, found {found}; the parameters are damaged")


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

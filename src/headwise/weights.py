"""A model's parameters on disk, read one at a time as NumPy arrays, and written in 8, 16 or 32 bits.

NumPy has no bfloat16: where tensors are written, uint16 is it, the upper halves of float32 numbers. An int8 tensor W
is stored with one scale per row in `NAME.scale`: row n is W[n] · scale[n], and scale[n] is the maximum absolute value
of the row divided by 127 (symmetric, as in Jacob et al. 2018, section 2). Vectors stay in float32, because their size
is negligible.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from headwise.errors import CheckpointError
from headwise.files import write_bytes
from headwise.parsing import parse_object

SCALE = ".scale"
_LONGEST_NAME = 300  # characters
_LENGTH = 8  # bytes of the header's length, with which a safetensors file begins
# Safetensors' names of the types that are written, and of the floating-point types that are read.
_STORED = {"float32": "F32", "uint16": "BF16", "int8": "I8"}
_FLOATS = ("F32", "BF16", "F16", "F64")
_MODEL = "model.safetensors"


class Weights:
    """The tensors of a safetensors file, read lazily and converted to float32.

    Opening checks that all types are supported, and that scales match their int8 tensors. `check` compares the shapes
    with those of a model, for every engine and every task (see `headwise.models.build.fitting`).
    """

    def __init__(self, path: Path, *, lenient: bool = False) -> None:
        """Open the file; raises `CheckpointError` if it is missing or damaged, or its tensors aren't weights.

        With `lenient`, a tensor of another type is an error only when it is read, as others' files have counters.
        """
        self.path = path
        self._lenient = lenient
        with reading(path):
            self._file = safe_open(path, "np").__enter__()
            stored = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118 - no dictionary
            self._types = {name: part.get_dtype() for name, part in stored.items()}
            self._shapes = {name: tuple(part.get_shape()) for name, part in stored.items()}
        for name in stored:
            if not name.isprintable() or len(name) > _LONGEST_NAME:
                raise CheckpointError(f"{path}: expected names of tensors in print, found {name[:60]!r}")
        self.names = frozenset(name for name in stored if not self._is_scale(name))
        for name in () if lenient else sorted(self.names):
            self._check_type(name)

    def _is_scale(self, name: str) -> bool:
        return name.endswith(SCALE) and self._types.get(name.removesuffix(SCALE)) == "I8"

    def _check_type(self, name: str) -> None:
        dtype = self._types[name]
        if dtype != "I8":
            if dtype not in _FLOATS:
                raise CheckpointError(
                    f"{self.path}: expected {name} in int8 or one of {', '.join(_FLOATS)}, found {dtype}"
                )
            return
        shape = self._shapes[name]
        if len(shape) != 2:
            raise CheckpointError(
                f"{self.path}: expected {name}, which is in int8, to be a matrix, found shape {shape}"
            )
        scale = name + SCALE
        if scale not in self._shapes:
            raise CheckpointError(f"{self.path}: expected tensor {scale}, found none of that name")
        if (self._types[scale], self._shapes[scale]) != ("F32", shape[:1]):
            raise CheckpointError(
                f"{self.path}: expected {scale} of type F32 and shape {shape[:1]}, one for each row of {name}, "
                f"found {self._types[scale]} and {self._shapes[scale]}"
            )

    @property
    def precision(self) -> str:
        """Stored precision of the matrices: float32, bfloat16 or int8."""
        types = set(self._types.values())
        return "int8" if "I8" in types else "bfloat16" if "BF16" in types else "float32"

    def get(self, name: str) -> NDArray[np.float32] | None:
        """Return a tensor in float32, or None if there is none of that name.

        Raises `CheckpointError` if one of its numbers isn't finite.
        """
        if name not in self.names:
            return None
        if self._lenient:
            self._check_type(name)
        with reading(self.path), np.errstate(all="ignore"):  # what isn't finite is found below
            if self._types[name] == "BF16":
                tensor = self._bfloat16(name)
            else:
                tensor = self._file.get_tensor(name).astype(np.float32)
            if self._types[name] == "I8":
                tensor *= self._file.get_tensor(name + SCALE)[:, None]
        check_finite(f"{self.path}: {name}", tensor)
        return tensor

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the names and tensors, sorted by name; raises `CheckpointError` as `get`."""
        for name in sorted(self.names):
            tensor = self.get(name)
            assert tensor is not None, name
            yield name, tensor

    def _bfloat16(self, name: str) -> NDArray[np.float32]:
        """Return a tensor in bfloat16, which NumPy doesn't have: the upper halves of float32 numbers.

        Its place in the file is in the header, which safetensors has checked.
        """
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            begin, end = parse_object(file.read(length), self.path)[name]["data_offsets"]
            file.seek(_LENGTH + length + begin)
            halves = np.frombuffer(file.read(end - begin), dtype="<u2")
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(self._shapes[name])

    def check(self, shapes: Mapping[str, tuple[int, ...]], within: str = "") -> None:
        """Compare with the shapes of a model's parameters; raises `CheckpointError` for the first mismatch.

        Additional tensors are allowed only if their names don't begin with `within`.
        """
        for name, shape in shapes.items():
            if name not in self.names:
                raise CheckpointError(f"{self.path}: expected tensor {name}, found none of that name")
            stored = self._shapes[name]
            if stored != tuple(shape):
                raise CheckpointError(f"{self.path}: expected {name} of shape {tuple(shape)}, found {stored}")
        if extra := sorted(name for name in self.names - set(shapes) if name.startswith(within)):
            raise CheckpointError(f"{self.path}: found tensor {extra[0]}, which this configuration has no place for")


def check_finite(name: str, tensor: NDArray[Any]) -> None:
    """Raise `CheckpointError` if a number of a tensor isn't finite, because low precision would hide it."""
    if not tensor.size:
        return
    with np.errstate(invalid="ignore"):
        extremes = [float(tensor.min()), float(tensor.max())]  # both are NaN if a number is
    for number in (value for value in extremes if not math.isfinite(value)):
        raise CheckpointError(f"{name}: expected finite numbers, found {number}; the parameters are damaged")


def quantized(name: str, tensor: NDArray[np.float32], precision: str) -> dict[str, NDArray[Any]]:
    """Return the tensors to store for a tensor in `precision`; only matrices are converted to int8 or bfloat16."""
    if tensor.ndim != 2 or precision == "float32":
        return {name: tensor}
    if precision == "bfloat16":
        bits = tensor.view(np.uint32)  # rounded to the nearest, ties to even
        return {name: ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)}
    scale = np.abs(tensor).max(1).clip(np.finfo(np.float32).tiny) / np.float32(127)
    return {name: np.rint(tensor / scale[:, None]).astype(np.int8), name + SCALE: scale}


def mean(files: Sequence[Path]) -> dict[str, NDArray[np.float32]]:
    """Return the mean of the tensors of model files, computed in float64.

    Raises `CheckpointError` if a file is damaged, or its tensors differ from those of the first in name or shape.
    """
    total: dict[str, NDArray[np.float64]] = {}
    for file in files:
        weights = Weights(file)
        tensors = dict(weights.tensors())
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        if total and shapes != {name: tensor.shape for name, tensor in total.items()}:
            raise CheckpointError(f"{file.parent}: expected the same parameters as {files[0].parent}, found others")
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor if name in total else tensor.astype(np.float64)
    return {name: np.asarray(tensor / len(files), np.float32) for name, tensor in total.items()}


def write_quantized(source: Path, target: Path, precision: str) -> None:
    """Write the model in `source` to `target` with its matrices in `precision`; the file's metadata is copied."""
    weights, stored = Weights(source), {}
    for name, tensor in weights.tensors():
        stored |= quantized(name, tensor, precision)
    with reading(source), safe_open(source, "np") as file:
        metadata = file.metadata()
    write_bytes(target, saved(stored, metadata))


def saved(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the content of a safetensors file; uint16 is stored as bfloat16.

    The same tensors give the same bytes: those with the largest numbers come first, as alignment needs it.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    order, parts, begin = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name)), [], 0
    for name in order:
        tensor = tensors[name]
        parts.append(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
        end = begin + len(parts[-1])
        kind = _STORED[tensor.dtype.name]
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *parts])


def read_recipe(path: Path) -> dict[str, Any]:
    """Return the provenance (`subwords`, `data`, `steps`) in the metadata of a model's file; empty if there is none.

    Raises `CheckpointError` if the file is missing or damaged.
    """
    with reading(path), safe_open(path, "np") as file:
        recipe = (file.metadata() or {}).get("headwise", "{}")
    return parse_object(recipe, f"{path}: metadata", error=CheckpointError)


class UnfinishedRunWarning(UserWarning):
    """A run has no model yet, and one of its checkpoints is used."""


def model_file(run: Path) -> Path:
    """Return the file of a run's model: of one that wasn't trained to its end, the best checkpoint's, with a warning.

    Raises `CheckpointError` if there is neither a model nor a checkpoint.
    """
    file, which = find_model(run)
    if file is None:
        raise CheckpointError(
            f"{run / _MODEL}: there is no such file, and no checkpoint; `headwise train` goes on with the run"
        )
    if which:
        warnings.warn(f"{run}: wasn't trained to its end; {which} is used", UnfinishedRunWarning, stacklevel=1)
    return file


def find_model(run: Path) -> tuple[Path | None, str]:
    """Return the file of a run's model, None if there is none, and which checkpoint's it is, if it is one's."""
    if (file := run / _MODEL).is_file():
        return file, ""
    for name in ("best", "latest"):
        with suppress(OSError, UnicodeDecodeError):
            step = re.fullmatch(r"step-(\d+)\n?", (run / name).read_text("utf-8"))
            if step and (file := run / "checkpoints" / step[0].strip() / _MODEL).is_file():
                return file, f"its {name} checkpoint, of step {int(step[1]):,},"
    return None, ""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Context manager in which errors of a missing or damaged file are a `CheckpointError`."""
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; was this run trained to its end?") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file, found a damaged one ({error})") from None

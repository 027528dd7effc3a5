"""Tensors of Hugging Face's files, listed without reading them; those of `torch.save` need PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headwise.errors import CheckpointError
from headwise.extras import optional_module
from headwise.interop.base import Array, Tensors
from headwise.parsing import read_json
from headwise.weights import Weights

_SHARD = re.compile(r"[\w.-]+")  # a file name without a folder
_MOST_SHARDS = 1000


def folder_tensors(folder: Path) -> Tensors:
    """Return the tensors of a Hugging Face directory, in one file or in shards.

    Raises `CheckpointError` where there are none, or a file is damaged, and `ConfigError` for a file of `torch.save`
    where PyTorch isn't installed.
    """
    for name, opened in (("model.safetensors", safetensors_file), ("pytorch_model.bin", _torch_file)):
        if (folder / name).is_file():
            return opened(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _shards(index, opened)
    raise CheckpointError(f"{folder}: expected model.safetensors or pytorch_model.bin, found neither")


def _shards(index: Path, opened: Callable[[Path], Tensors]) -> Tensors:
    """Return the tensors of the files that an index names."""
    content = read_json(index, error=CheckpointError)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise CheckpointError(f"{index}: expected weight_map, the file of each tensor, found none")
    names = sorted(set(places.values()))
    for name in names:
        if not _SHARD.fullmatch(name) or name.startswith("."):
            raise CheckpointError(f"{index}: expected names of files beside it, found {name[:60]!r}")
    if len(names) > _MOST_SHARDS:
        raise CheckpointError(f"{index}: expected at most {_MOST_SHARDS} files, found {len(names)}")
    files = {name: opened(index.parent / name) for name in names}
    tensors: dict[str, Callable[[], Array]] = {}
    for tensor, name in places.items():
        if tensor not in files[name]:
            raise CheckpointError(f"{index}: expected {tensor} in {name}, found none of that name")
        tensors[tensor] = files[name][tensor]
    return tensors


def safetensors_file(path: Path) -> Tensors:
    """Return the tensors of a safetensors file; raises `CheckpointError` if it is damaged."""
    weights = Weights(path, lenient=True)

    def read(name: str) -> Array:
        tensor = weights.get(name)
        assert tensor is not None, name
        return tensor

    return {name: partial(read, name) for name in sorted(weights.names)}


def _torch_file(path: Path) -> Tensors:
    found: Tensors = optional_module("headwise.interop.huggingface.torch_file", path).torch_file(path)
    return found

"""Tensors in the zip files of `torch.save`, listed without reading them.

Pickles are read by torch's restricted loader (`weights_only=True`), and must hold tensors by name alone. Names, types
and sizes are checked before a tensor takes memory.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
import zipfile
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.files import DamagedArchive, opened_zip
from headwise.interop.base import Array, Tensors
from headwise.parsing import kind_of

_REFUSED = re.compile(r"Unsupported (?:global|class|operand|type)\W+(?:GLOBAL\W+)?([\w.]+)")
# What an opcode of a pickle makes that may be referred to.
_REFERRED = ("GLOBAL", "BINUNICODE", "SHORT_BINSTRING", "BINPERSID", "REDUCE", "EMPTY_DICT", "EMPTY_LIST")
# What torch.load raises.
_DAMAGED = (RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, OSError)


def torch_file(path: Path) -> Tensors:
    """Return the tensors of a state dictionary of `torch.save`, mapped from the file by torch's restricted loader.

    Raises `CheckpointError` for a damaged file, for the format before PyTorch 1.6, for compressed content (which may
    expand without bound), for a pickle that needs more than tensors of real numbers, and for a tensor with
    more elements than the file has bytes, as an expanded one may.
    """
    try:
        with opened_zip(path) as archive:
            entries = archive.infolist()
            stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
            names = [entry.filename for entry in entries if entry.filename.endswith("data.pkl")]
            pickles = [archive.read(name) for name in names if stored]
    except DamagedArchive:
        raise CheckpointError(
            f"{path}: expected a file of torch.save in its zip format (PyTorch 1.6 or newer), found another file"
        ) from None
    if not stored:
        raise CheckpointError(f"{path}: expected uncompressed tensors as torch.save writes them, found compressed ones")
    try:
        for content in pickles:
            _check_pickle(content)
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        found = _REFUSED.search(str(error))
        what = f"{found[1]}" if found else " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: expected tensors by name, found a pickle that needs more ({what})") from None
    except _DAMAGED as error:
        raise CheckpointError(
            f"{path}: expected a file of torch.save, found a damaged one ({' '.join(str(error).split())[:200]})"
        ) from None
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{path}: expected tensors by name, found {kind_of(loaded)}")
    most = sum(entry.file_size for entry in entries)
    for name, tensor in loaded.items():
        if not isinstance(name, str) or not name.isprintable() or not isinstance(tensor, Tensor):
            shown = repr(name[:60]) if isinstance(name, str) else kind_of(name)
            raise CheckpointError(f"{path}: expected tensors by name, found {kind_of(tensor)} for {shown}")
        if tensor.is_nested or tensor.is_meta or tensor.is_quantized or tensor.is_complex():
            raise CheckpointError(
                f"{path}: expected tensors of real numbers, found {name[:60]!r}, which is nested, without content, "
                "quantized or complex"
            )
        if math.prod(tensor.shape) * tensor.element_size() > most or tensor.layout != torch.strided:
            raise CheckpointError(
                f"{path}: expected tensors within its {most:,} bytes, found one of shape {tuple(tensor.shape)}"
            )
    return {name: partial(_as_float, tensor) for name, tensor in loaded.items()}


def _check_pickle(content: bytes) -> None:
    """Raise `pickle.UnpicklingError` for a tuple that is there twice by reference.

    A tuple of two references to a tuple, 40 times over, has 2^40 elements, whose hash as a key Python computes one by
    one. `torch.save` refers to names, classes, storages and tensors only.
    """
    kinds: dict[int, str] = {}
    before = ""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("BINPUT", "LONG_BINPUT"):
            assert isinstance(argument, int)
            kinds[argument] = before
        elif opcode.name in ("BINGET", "LONG_BINGET") and kinds.get(int(argument or 0)) not in _REFERRED:
            raise pickle.UnpicklingError("a reference to a container")
        before = opcode.name


def _as_float(tensor: Tensor) -> Array:
    return tensor.detach().float().resolve_neg().numpy()

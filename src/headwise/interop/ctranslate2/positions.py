"""Positions of a CTranslate2 Transformer: a stored table, or the sinusoids that CTranslate2 makes without one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.interop.ctranslate2.attributes import shape_of
from headwise.interop.ctranslate2.binary import ModelFile
from headwise.nn.positions import sinusoids

_MADE = 512  # positions of a table that CTranslate2 would make; Headwise's default of model.max_length
# OpenNMT-py computes sinusoids in float32: at position 5,000 they are off by 3e-4. bfloat16 has 8 bits.
_TOLERANCE, _COARSE = 1e-3, 5e-3


def read_positions(file: ModelFile, names: list[str], d_model: int) -> tuple[str, Tensor]:
    """Return the kind of positions and their table (max_length, d_model); `names` are the tables of both sides.

    Sinusoids that were rounded become the paper's again.

    Raises `CheckpointError` unless both sides have the same table, or neither has one.
    """
    present = [name for name in names if name in file.variables]
    if not present:
        return "learned", made_sinusoids(_MADE, d_model)
    if len(present) < len(names):
        raise CheckpointError(f"{file.path}: expected {' and '.join(names)}, found only {present[0]}")
    shapes = [shape_of(file, name, 2) for name in names]
    for name, shape in zip(names, shapes, strict=True):
        if shape[1] != d_model or not shape[0]:
            raise CheckpointError(f"{file.path}: expected {name} of shape (…, {d_model}), found {shape}")
    length = min(shape[0] for shape in shapes)
    tables = [file.tensor(name, slice(length)) for name in names]
    if not torch.equal(*tables):
        raise CheckpointError(f"{file.path}: expected {' and '.join(names)} to be equal, found other numbers")
    table = tables[0]
    tolerance = _COARSE if file.variables[names[0]].type == "bfloat16" else _TOLERANCE
    if d_model % 2 == 0 and torch.allclose(table, sinusoids(length, d_model), rtol=0, atol=tolerance):
        return "sinusoidal", table
    return ("learned" if bool(table.any()) else "none"), table


def made_sinusoids(length: int, d_model: int) -> Tensor:
    """Return the table that CTranslate2 makes for a model without one (`src/layers/common.cc`), (length, d_model).

    As in OpenNMT-tf, all sines come before all cosines, positions begin at 1, and the wavelengths end at 10,000 · 2π.
    """
    half = d_model // 2
    frequency = torch.exp(-math.log(10000) / (half - 1) * torch.arange(half, dtype=torch.float64))
    angle = torch.arange(1, length + 1, dtype=torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()

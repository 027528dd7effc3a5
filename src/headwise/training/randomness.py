"""The global random generators of a process: seeding, and saving and restoring their states as tensors."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_STEPS = 0x9E3779B97F4A7C15  # 2^64 by the golden ratio, so that no other rank or step has the same seed
_WORDS = 624  # 32-bit words of a Mersenne Twister's state, besides a position in them


def seed_random(seed: int) -> None:
    """Seed every global random generator of this process."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global generator, if a task uses it
    torch.manual_seed(seed)


def rank_seed(seed: int, rank: int, step: int = 0) -> int:
    """Return the seed of a rank's generators, for a rank that begins after `step` steps of the training."""
    return (seed * 1_000_003 + rank + step * _STEPS) % 2**63


def random_state() -> dict[str, Tensor]:
    """Return the state of every global random generator of this process."""
    version, numbers, gauss = random.getstate()
    legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - the global generator, if a task uses it
    state = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor([version, *numbers], dtype=torch.int64),
        "python_gauss": torch.tensor([float("nan") if gauss is None else gauss], dtype=torch.float64),
        "numpy": torch.from_numpy(legacy["state"]["key"].astype(np.int64)),
        "numpy_position": torch.tensor([legacy["state"]["pos"], legacy["has_gauss"]], dtype=torch.int64),
        "numpy_gauss": torch.tensor([legacy["gauss"]], dtype=torch.float64),
    }
    if torch.cuda.is_available():
        state |= {f"cuda{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    return state


def restore_random(state: Mapping[str, Tensor]) -> None:
    """Restore every global random generator from a state that `random_state` returned.

    Raises `ValueError` for an invalid state, and then leaves every generator unchanged.
    """
    _check(state)
    version, *numbers = state["python"].tolist()
    gauss = state["python_gauss"].item()
    position, has_gauss = state["numpy_position"].tolist()
    key = state["numpy"].numpy().astype(np.uint32)
    previous = torch.get_rng_state()
    try:
        torch.set_rng_state(state["torch"])
        if torch.cuda.is_available():
            on_gpu = [state[f"cuda{i}"] for i in range(torch.cuda.device_count()) if f"cuda{i}" in state]
            torch.cuda.set_rng_state_all(on_gpu)
    except RuntimeError as error:
        torch.set_rng_state(previous)
        raise ValueError(f"expected a state of torch's generator, found another ({error})") from None
    random.setstate((version, tuple(numbers), None if gauss != gauss else gauss))
    np.random.set_state(("MT19937", key, position, has_gauss, state["numpy_gauss"].item()))  # noqa: NPY002


def _check(state: Mapping[str, Tensor]) -> None:
    """Compare a state with the current generators in names, types and shapes, and check the range of every number."""
    for name, own in random_state().items():
        tensor = state.get(name)
        if name.startswith("cuda") and tensor is None:
            continue  # saved on a machine with fewer devices
        if tensor is None:
            raise ValueError(f"expected the state of {name}, found none")
        if tensor.dtype != own.dtype or tensor.shape != own.shape:
            raise ValueError(
                f"expected {name} of shape {tuple(own.shape)} and type {own.dtype}, "
                f"found shape {tuple(tensor.shape)} and type {tensor.dtype}"
            )
    version, *words, position = state["python"].tolist()
    own_version = random.getstate()[0]
    if version != own_version:
        raise ValueError(f"expected python's generator of version {own_version}, found version {version}")
    numpy_position, has_gauss = state["numpy_position"].tolist()
    for name, numbers, limit in (
        ("python", words, 2**32 - 1),
        ("python", [position], _WORDS),
        ("numpy", state["numpy"].tolist(), 2**32 - 1),
        ("numpy_position", [numpy_position], _WORDS),
        ("numpy_position", [has_gauss], 1),
    ):
        for number in numbers:
            if not 0 <= number <= limit:
                raise ValueError(f"expected numbers from 0 to {limit} in {name}, found {number}")

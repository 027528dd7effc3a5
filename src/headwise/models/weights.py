"""Parameters of PyTorch models from disk; `headwise.weights` describes the format."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from headwise.weights import Weights


def fill(parameters: Mapping[str, Tensor], weights: Weights) -> None:
    """Copy the tensors of these names into a model's parameters; the shapes must have been checked."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            tensor = weights.get(name)
            assert tensor is not None, name
            parameter.copy_(torch.from_numpy(tensor))

"""The layers around attention: feed-forward networks, normalization, residual connections, embedding lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.errors import ConfigError, DataError
from headwise.nn.dropout import dropout, dropout_add
from headwise.nn.linear import Linear

Layer = TypeVar("Layer", bound=nn.Module)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class LayerNorm(nn.LayerNorm):
    """Layer normalization over the last dimension by √(σ² + ε) (Ba et al. 2016), in the dtype of the input."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        weight, bias = (None if each is None else each.to(input.dtype) for each in (self.weight, self.bias))
        return functional.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """Division by √(mean x² + ε) over the last dimension (Zhang & Sennrich 2019), in the dtype of the input."""

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        weight = None if self.weight is None else self.weight.to(x.dtype)
        return functional.rms_norm(x, self.normalized_shape, weight, self.eps)


NORMALIZATIONS: dict[str, Callable[[int, float], nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂ (section 3.3); (…, d_model) to (…, d_model).

    `gated`: FFN(x) = (f(x W₁ + b₁) · (x V + c)) W₂ + b₂ (Shazeer 2020, equations 5 and 6); V is `gate`. Raises
    `ConfigError` for an unknown activation.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str, drop: float, *, gated: bool = False, bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"activation: expected one of {', '.join(ACTIVATIONS)}, found {activation!r}")
        self.w1 = Linear(d_model, d_ff, bias=bias)
        self.gate = Linear(d_model, d_ff, bias=bias) if gated else None
        self.w2 = Linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = drop

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        hidden = self.activation(self.w1(x))  # (…, d_ff)
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.w2(dropout(hidden, self.dropout, self.training))


class Residual(nn.Module):
    """The residual connection around a sub-layer (section 5.4; section 3.1 for the order).

    x = post_norm(add(x, sublayer(pre_norm(x)))). Post-norm, as in the paper: Norm(x + Dropout(Sublayer(x))). Pre-norm:
    x + Dropout(Sublayer(Norm(x))). `Norm` is LayerNorm(x) unless another `normalization` is given. Not `connected`, x +
    is left out. Raises `ConfigError` for another norm than post and pre.
    """

    def __init__(
        self,
        d_model: int,
        norm: str,
        drop: float,
        normalization: nn.Module | None = None,
        *,
        connected: bool = True,
    ) -> None:
        super().__init__()
        if norm not in ("post", "pre"):
            raise ConfigError(f"norm: expected post or pre, found {norm!r}")
        self.connected = connected
        self.norm = LayerNorm(d_model) if normalization is None else normalization
        self.pre = norm == "pre"
        self.dropout = drop

    def pre_norm(self, x: Tensor) -> Tensor:
        """Return the sub-layer's input: normalized x with pre-norm, x itself with post-norm."""
        return self.norm(x) if self.pre else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + Dropout(y) in one pass, with y the output of the sub-layer; Dropout(y) if not `connected`."""
        if not self.connected:
            return dropout(y, self.dropout, self.training)
        return dropout_add(y, x, self.dropout, self.training)

    def post_norm(self, x: Tensor) -> Tensor:
        """Return the input of the next sub-layer: normalized x with post-norm, x itself with pre-norm."""
        return x if self.pre else self.norm(x)


class Stack(nn.ModuleList, Generic[Layer]):
    """Layers of one class, which type checkers know."""

    def __init__(self, layers: Iterable[Layer] = ()) -> None:
        super().__init__(layers)

    def __iter__(self) -> Iterator[Layer]:
        return super().__iter__()  # type: ignore[return-value]


class Embedding(nn.Embedding):
    """Embedding table whose `DataError` names an id outside it."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the embeddings (…, d_model) of ids, the input (…).

        On a GPU, an id outside the table ends the process with a device-side assertion instead, because checking the
        ids would need a synchronization.
        """
        try:
            return super().forward(input)
        except IndexError:
            low, high = torch.stack(input.aminmax()).tolist()
            raise DataError(
                f"expected ids from 0 to {self.num_embeddings - 1}, found {low if low < 0 else high}"
            ) from None

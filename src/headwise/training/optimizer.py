"""Optimizers: Adam as in the paper's section 5.3, and Muon for the matrices of the layers.

PyTorch wraps the methods of its optimizers to exclude them from its compiler, and the wrapper imports the compiler: one
to two seconds at the start of every training. They are unwrapped here, because nothing is compiled.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import OptimizerConfig
from headwise.errors import ConfigError
from headwise.models.transformer import DecoderLayer, EncoderLayer
from headwise.nn.linear import Linear
from headwise.training.parallel.sharding import gathered, is_sharded, sharded_like
from headwise.training.parallel.world import World

ADAM_STATE = frozenset({"step", "exp_avg", "exp_avg_sq"})  # of a parameter, as PyTorch names it
MUON_STATE = frozenset({"momentum_buffer"})

# Coefficients of the iteration X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, and its number of steps (Jordan et al. 2024).
_A, _B, _C = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5
_SMALLEST_NORM = 1e-7
# Root mean square of an update of Adam at a rate of 1, roughly (Liu et al. 2025, section 2.2).
_ADAMS_RMS = 0.2


class _Uncompiled(torch.optim.Optimizer):
    """Optimizer without the wrappers for PyTorch's compiler."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class Adam(_Uncompiled, torch.optim.AdamW):
    """PyTorch's fused AdamW; the learning rate is set before every step (`schedule.learning_rate`)."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))

    def __init__(self, parameters: Iterable[Tensor], options: OptimizerConfig) -> None:
        super().__init__(
            parameters,
            lr=0.0,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            weight_decay=options.weight_decay,
            fused=True,
        )


class Muon(_Uncompiled):
    """Muon for matrices (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), Adam for other parameters.

    With the gradient G of a matrix W (n, m), momentum μ and a learning rate η:

        M ← μ M + (1 - μ) G
        W ← W - η · 0.2 √max(n, m) · orthogonalized(μ M + (1 - μ) G)

    A singular value of the update counts as much as any other, however small it is in the gradient. The factor gives
    the update the size of Adam's (Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2), so both have
    one schedule; η is `matrix_rate` times its rate. Weight decay is decoupled, as in Adam.

    Matrices of the same shape are orthogonalized together. Each rank orthogonalizes its share of them, and all ranks
    then exchange the results. Sharded matrices (FSDP) are gathered, as many at a time as there are ranks.

    `torch.optim.Muon` (since torch 2.9) has the same update, but each rank orthogonalizes every matrix, one by one, in
    bfloat16: 13 times the time of this one on a CPU without bfloat16 products.
    """

    def __init__(
        self,
        matrices: Sequence[Tensor],
        others: Sequence[Tensor],
        options: OptimizerConfig,
        *,
        world: World,
        dtype: torch.dtype,
    ) -> None:
        """`dtype` is that of the products of the orthogonalization: float32, or bfloat16 where it is fast."""
        super().__init__(matrices, {"lr": 0.0})
        self._options, self._world, self._dtype = options, world, dtype
        self._alike = _by_shape(matrices)
        self._adam = Adam(others, options) if others else None
        if self._adam is not None:
            self._adam.state = self.state
            self.param_groups.extend(self._adam.param_groups)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update all parameters that have a gradient."""
        assert closure is None
        if self._adam is not None:
            self._adam.step()
        rate = self._options.matrix_rate * self.param_groups[0]["lr"]
        for matrices in self._alike:
            at_once = self._world.size if is_sharded(matrices[0]) else len(matrices)
            for first in range(0, len(matrices), at_once):
                self._update(matrices[first : first + at_once], rate)

    def _update(self, matrices: Sequence[Tensor], rate: float) -> None:
        """Update matrices of one shape, of those that have a gradient."""
        matrices = [matrix for matrix in matrices if matrix.grad is not None]
        if not matrices:
            return
        directions = self._orthogonalized(torch.stack([gathered(self._averaged(m)) for m in matrices]))
        scale = rate * _ADAMS_RMS * math.sqrt(max(matrices[0].shape))
        for matrix, direction in zip(matrices, directions, strict=True):
            if self._options.weight_decay:
                matrix.mul_(1 - rate * self._options.weight_decay)
            matrix.add_(sharded_like(matrix, direction), alpha=-scale)

    def _averaged(self, matrix: Tensor) -> Tensor:
        """Add the gradient to its moving average; return the average with the gradient added once more (Nesterov)."""
        gradient, state, momentum = matrix.grad, self.state[matrix], self._options.momentum
        assert gradient is not None
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        average = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum)

    def _orthogonalized(self, updates: Tensor) -> Tensor:
        """Return `orthogonalized(updates)`, (n, rows, columns), of which each rank computes its share."""
        size, rank = self._world.size, self._world.rank
        if size == 1:
            return orthogonalized(updates, self._dtype)
        share = -(-len(updates) // size)
        own = updates[rank * share :][:share]
        computed = updates.new_zeros(share, *updates.shape[1:])
        if len(own):
            computed[: len(own)] = orthogonalized(own, self._dtype)
        return self._world.gather_rows(computed)[: len(updates)]


def orthogonalized(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return matrices (n, rows, columns) with the same singular vectors and with singular values between 0.7 and 1.2.

    That is about U Vᵀ for x = U S Vᵀ, by a Newton-Schulz iteration (Jordan et al. 2024) with products in `dtype`. A
    singular value that is less than a thousandth of the Frobenius norm may stay smaller; a matrix of zeros stays what
    it is.
    """
    if x.size(-2) > x.size(-1):
        return orthogonalized(x.mT, dtype).mT
    y = (x / torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True).clamp(min=_SMALLEST_NORM)).to(dtype)
    for _ in range(_ITERATIONS):
        gram = y @ y.mT
        y = torch.baddbmm(y, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), y, beta=_A)
    return y.to(x.dtype)


def layer_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trained weights of the linear maps in the Transformer layers of a model, by name."""
    layers = (module for module in model.modules() if isinstance(module, (EncoderLayer, DecoderLayer)))
    maps = (module for layer in layers for module in layer.modules() if isinstance(module, Linear))
    weights = {id(module.weight) for module in maps}
    return {name: parameter for name, parameter in _trained(model) if id(parameter) in weights}


def state_keys(model: nn.Module, options: OptimizerConfig) -> dict[str, frozenset[str]]:
    """Return the names of the optimizer's tensors of every trained parameter, by the parameter's name."""
    matrices = layer_matrices(model) if options.name == "muon" else {}
    return {name: MUON_STATE if name in matrices else ADAM_STATE for name, _ in _trained(model)}


def build_optimizer(model: nn.Module, options: OptimizerConfig, world: World) -> torch.optim.Optimizer:
    """Return the optimizer of the trained parameters.

    Raises `ConfigError` for Muon if no linear map of a Transformer layer is trained.
    """
    parameters = dict(_trained(model))
    if options.name == "adam":
        return Adam(parameters.values(), options)
    matrices = layer_matrices(model)
    if not matrices:
        raise ConfigError(
            "optimizer.name: expected adam for a model without trained matrices in Transformer layers, found muon"
        )
    others = [parameter for name, parameter in parameters.items() if name not in matrices]
    dtype = getattr(model, "compute_dtype", torch.float32)
    return Muon(list(matrices.values()), others, options, world=world, dtype=dtype)


def _trained(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _by_shape(matrices: Sequence[Tensor]) -> list[list[Tensor]]:
    alike: dict[torch.Size, list[Tensor]] = {}
    for matrix in matrices:
        alike.setdefault(matrix.shape, []).append(matrix)
    return list(alike.values())

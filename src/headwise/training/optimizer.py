"""Adam as in the paper's section 5.3, with optional decoupled weight decay (AdamW)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import torch
from torch import nn

from headwise.config import OptimizerConfig


class Adam(torch.optim.AdamW):
    """PyTorch's fused AdamW; the learning rate is set before every step (`schedule.learning_rate`).

    PyTorch wraps the methods below to exclude them from its compiler, and the wrapper imports the compiler: one to two
    seconds at the start of every training. They are unwrapped here, because nothing is compiled.
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)

    def __init__(self, parameters: Iterable[nn.Parameter], options: OptimizerConfig) -> None:
        super().__init__(
            parameters,
            lr=0.0,
            betas=(options.beta1, options.beta2),
            eps=options.epsilon,
            weight_decay=options.weight_decay,
            fused=True,
        )

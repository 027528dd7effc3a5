"""The gradient of one optimizer step: summed over its batches, and over the processes that train together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headwise.data.stream import StandIn
from headwise.training.parallel import World
from headwise.training.task import Task


@dataclass(frozen=True)
class StepLoss:
    """What one step was computed from, over all processes: target tokens, and their summed loss in nats."""

    tokens: int
    nll: float


class LossNotFinite(Exception):
    """The loss of a batch is infinite or not a number; the message says which loss and which batch."""


def compute_gradients(
    task: Task, batches: Sequence[Any], parameters: Sequence[nn.Parameter], world: World, device: torch.device
) -> StepLoss:
    """Set the gradient of the mean loss per target token over the batches of all ranks.

    The loss is divided once, by the target tokens of all batches and ranks, so that it doesn't matter how the tokens
    are spread. Raises `LossNotFinite`, on every rank the same.
    """
    (tokens,) = world.sum(sum(batch.target_tokens for batch in batches), device=device)
    nll, trouble = 0.0, ""
    for given in batches:
        weight, batch = (0.0, given.batch) if isinstance(given, StandIn) else (1.0, given)
        loss = task.loss(batch)
        value = loss.total.item()
        if not math.isfinite(value):
            trouble = f"the loss is {value} for {task.locate(batch)}"
            break
        (weight * loss.total / tokens).backward()
        nll += weight * loss.nll.item()
    nll, troubles = world.sum(nll, float(bool(trouble)), device=device)
    if troubles:
        raise LossNotFinite(next(filter(None, world.gather(trouble))))
    world.sum_gradients(parameters)
    return StepLoss(int(tokens), nll)

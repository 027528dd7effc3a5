"""The gradient of one optimizer step, summed over its batches (gradient accumulation) and data-parallel ranks."""

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
    """Target tokens of one optimizer step and their summed negative log-likelihood in nats, over all ranks."""

    tokens: int
    nll: float


class LossNotFinite(Exception):
    """The loss of a batch is infinite or NaN; the message gives the loss and the batch."""


def compute_gradients(
    task: Task, batches: Sequence[Any], parameters: Sequence[nn.Parameter], world: World, device: torch.device
) -> StepLoss:
    """Set the gradients of the mean loss per target token over the batches of all ranks.

    The loss is divided once, by the target tokens of all batches and ranks, so that the distribution of tokens over
    batches and ranks doesn't matter. Raises `LossNotFinite`, with the same message on every rank.
    """
    (tokens,) = world.sum(sum(batch.target_tokens for batch in batches), device=device)
    nll, problem = 0.0, ""
    for item in batches:
        weight, batch = (0.0, item.batch) if isinstance(item, StandIn) else (1.0, item)
        loss = task.loss(batch)
        value = loss.total.item()
        if not math.isfinite(value):
            problem = f"the loss is {value} for {task.locate(batch)}"
            break
        (weight * loss.total / tokens).backward()
        nll += weight * loss.nll.item()
    nll, problems = world.sum(nll, float(bool(problem)), device=device)
    if problems:
        raise LossNotFinite(next(filter(None, world.gather(problem))))
    world.sum_gradients(parameters)
    return StepLoss(int(tokens), nll)

"""The gradient of one optimizer step, summed over its batches (gradient accumulation) and data-parallel ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from headwise.data.stream import StandIn
from headwise.training.parallel.replica import Replica
from headwise.training.parallel.world import World


@dataclass(frozen=True)
class StepLoss:
    """Target tokens of one optimizer step and their summed negative log-likelihood in nats, over all ranks."""

    tokens: int
    nll: float


class LossNotFinite(Exception):
    """The loss of a batch is infinite or NaN; the message gives the loss and the batch."""


def compute_gradients(replica: Replica, batches: Sequence[Any], world: World, device: torch.device) -> StepLoss:
    """Set the gradients of the mean loss per target token over the batches of all ranks.

    The loss is divided once, by the target tokens of all batches and ranks, so that the distribution of tokens over
    batches and ranks doesn't matter. Gradients are summed over ranks in the last batch's backward pass. Raises
    `LossNotFinite`, with the same message on every rank, and leaves useless gradients then.
    """
    (tokens,) = world.sum(sum(batch.target_tokens for batch in batches), device=device)
    # DDP and FSDP divide the sum of gradients by the number of ranks.
    scale = world.size / tokens
    nll, problem = 0.0, ""
    for number, item in enumerate(batches, start=1):
        weight, batch = (0.0, item.batch) if isinstance(item, StandIn) else (1.0, item)
        with nullcontext() if number == len(batches) else replica.no_sync():
            total, batch_nll = replica.loss(batch)
            value = total.item()
            if not math.isfinite(value):
                problem = problem or f"the loss is {value} for {replica.task.locate(batch)}"
                if world.size == 1:
                    break
            (weight * scale * total).backward()  # also after a problem, as other ranks wait for the gradients
        nll += weight * batch_nll.item()
    nll, problems = world.sum(nll, float(bool(problem)), device=device)
    if problems:
        raise LossNotFinite(next(filter(None, world.gather(problem))))
    return StepLoss(int(tokens), nll)

"""Learning rate as a function of the step (Vaswani et al. 2017, section 5.3, equation 3)."""

from __future__ import annotations

import math

from headwise.config import ScheduleConfig


def learning_rate(config: ScheduleConfig, d_model: int, step: int, max_steps: int) -> float:
    """Rate of step 1, 2, …

    noam: scale · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), as in the paper. The others rise linearly to
    `peak` at step `warmup`; inverse_sqrt then falls with √(warmup / step), linear and cosine reach zero at
    max_steps, constant stays.
    """
    assert step >= 1, step
    warmup = max(config.warmup, 1)
    if config.name == "noam":
        return config.scale * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert config.peak is not None
    if step < warmup:
        return config.peak * step / warmup
    if config.name == "inverse_sqrt":
        return config.peak * math.sqrt(warmup / step)
    if config.name == "constant":
        return config.peak
    left = max(0.0, (max_steps - step) / max(1, max_steps - warmup))
    if config.name == "linear":
        return config.peak * left
    assert config.name == "cosine", config.name
    return config.peak * (1 - math.cos(math.pi * left)) / 2

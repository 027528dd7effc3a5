"""Learning rate as a function of the step (Vaswani et al. 2017, section 5.3, equation 3)."""

from __future__ import annotations

import math

from headwise.config import ScheduleConfig

_LONGEST_WARMUP = 0.2  # share of the steps


def ends_at_last_step(config: ScheduleConfig) -> bool:
    """Whether the rate falls to zero at the last step, which must then be known beforehand."""
    return config.name in ("linear", "cosine")


def with_shorter_warmup(config: ScheduleConfig, steps: int) -> ScheduleConfig:
    """Return the schedule with a warm-up of at most a fifth of so many steps."""
    longest = max(1, int(_LONGEST_WARMUP * steps))
    return config if config.warmup <= longest else config.model_copy(update={"warmup": longest})


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

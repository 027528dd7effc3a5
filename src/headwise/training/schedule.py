"""Learning-rate schedules (Vaswani et al. 2017, section 5.3, equation 3, and others)."""

from __future__ import annotations

import math

from headwise.config import ScheduleConfig

_LONGEST_WARMUP = 0.2  # as a share of all steps


def decays_from(config: ScheduleConfig) -> float | None:
    """Return the share of the steps after which the learning rate depends on the last step, None if it never does."""
    if config.name in ("linear", "cosine"):
        return 0.0
    return 1 - config.cooldown if config.cooldown else None


def with_shorter_warmup(config: ScheduleConfig, steps: int) -> ScheduleConfig:
    """Return the schedule with a warm-up of at most a fifth of `steps`."""
    longest = max(1, int(_LONGEST_WARMUP * steps))
    return config if config.warmup <= longest else config.model_copy(update={"warmup": longest})


def learning_rate(config: ScheduleConfig, d_model: int, step: int, max_steps: int) -> float:
    """Return the learning rate of a step, counted from 1.

    noam: scale · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), as in the paper. The others warm up linearly to
    `peak` at step `warmup`; then inverse_sqrt decays with √(warmup / step), linear and cosine decay to zero at
    `max_steps`, and constant stays at `peak`. With a cooldown, the rate is multiplied by a factor that falls linearly
    from 1 to zero in the last `cooldown` · `max_steps` steps (Hägele et al. 2024).
    """
    assert step >= 1, step
    rate = _without_cooldown(config, d_model, step, max_steps)
    if not config.cooldown:
        return rate
    return rate * min(1.0, max(0.0, (max_steps - step) / (config.cooldown * max_steps)))


def _without_cooldown(config: ScheduleConfig, d_model: int, step: int, max_steps: int) -> float:
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
    remaining = max(0.0, (max_steps - step) / max(1, max_steps - warmup))
    if config.name == "linear":
        return config.peak * remaining
    assert config.name == "cosine", config.name
    return config.peak * (1 - math.cos(math.pi * remaining)) / 2

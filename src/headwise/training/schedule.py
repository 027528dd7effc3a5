"""Learning-rate schedules (Vaswani et al. 2017, section 5.3, equation 3, and others)."""

from __future__ import annotations

import math

from headwise.config import ScheduleConfig
from headwise.training.progress import Timing


def decays(config: ScheduleConfig) -> bool:
    """Return whether the learning rate falls to zero at the end of training."""
    return config.name in ("linear", "cosine") or config.cooldown > 0


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
    return config.peak * _descent(config, max(0.0, (max_steps - step) / max(1, max_steps - warmup)))


def clocked_rate(config: ScheduleConfig, d_model: int, step: int, timing: Timing, left: float) -> float:
    """Return the learning rate of a step after which the share `left` of the time is left.

    At a constant speed that is `learning_rate`, except that the warm-up takes at most a fifth of the time. Its highest
    rate is the same, however many steps it takes.
    """
    warmup = max(config.warmup, 1)
    peak = config.scale * (d_model * warmup) ** -0.5 if config.name == "noam" else config.peak
    assert peak is not None
    rate = peak * timing.warmed
    if config.name in ("linear", "cosine"):
        return rate * _descent(config, min(1.0, left / timing.decays_from))
    if timing.warmup_steps and config.name != "constant":
        rate *= math.sqrt(min(1.0, min(warmup, timing.warmup_steps) / step))
    return rate * (min(1.0, left / config.cooldown) if config.cooldown else 1.0)


def _descent(config: ScheduleConfig, remaining: float) -> float:
    """Return the factor of linear and cosine, by the share of the descent that is left."""
    if config.name == "linear":
        return remaining
    assert config.name == "cosine", config.name
    return (1 - math.cos(math.pi * remaining)) / 2

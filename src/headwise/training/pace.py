"""Planning by the clock: the number of steps that fit `training.max_minutes`, and how often to validate.

The first rank's clock decides for all ranks. The decisions are part of the progress in every checkpoint, so a run
resumes with them.
"""

from __future__ import annotations

import math
from collections import deque

import torch

from headwise.config import TrainingConfig
from headwise.training.parallel.world import World
from headwise.training.progress import Progress

# Shares of `max_minutes` after which the number of steps is first estimated, and may be final.
_FIRST_PLAN, _LAST_PLAN = 0.025, 0.1
_MARGIN = 0.02  # share of `max_minutes` that is left as a margin
_WARM_UP = 3  # number of the first step to measure, as the ones before are slower
_RECENT = 50  # steps over which the current speed is measured
_SHORTER = 0.97  # a final plan changes only if fewer than this share of its remaining steps is possible
_FINAL_SEARCH = 2.0  # duration of the final validation, with beam search, relative to the longest before
_SHORT = 2.0  # seconds; the interval of validations that take less isn't increased


class Pace:
    """Measures the time of steps and validations, and plans the rest of the training.

    `progress.planned_steps` is the last step that fits `max_minutes`, 0 before it is known. Only every
    `progress.validate_stride`-th of the configured validations is done.
    """

    def __init__(
        self,
        options: TrainingConfig,
        progress: Progress,
        world: World,
        device: torch.device,
        *,
        decays_from: float | None,
    ) -> None:
        """`decays_from`: share of the steps after which the rate depends on the last one; None: it never does."""
        self._options, self._progress, self._world, self._device = options, progress, world, device
        self._decays_from = decays_from if options.max_minutes is not None else None
        if options.max_minutes != progress.planned_minutes:
            progress.planned_steps, progress.planned_minutes, progress.plan_is_final = (
                0,
                options.max_minutes,
                False,
            )
        self._steps = 0
        self._validating = self._longest_validation = 0.0
        # (step, seconds of training without validations)
        self._recent: deque[tuple[int, float]] = deque(maxlen=_RECENT)

    @property
    def last_step(self) -> int:
        """The step at which training ends: the planned one, if there is a plan, and at most `max_steps`."""
        planned = self._progress.planned_steps
        return min(planned, self._options.max_steps) if planned else self._options.max_steps

    def stepped(self) -> str:
        """Record a step and update the plan, after `progress.seconds` was updated; return a message, if any."""
        self._steps += 1
        if self._steps >= _WARM_UP:
            self._recent.append((self._progress.step, self._progress.seconds - self._validating))
        if self._decays_from is None:
            return ""
        planned, final = (int(n) for n in self._world.from_first(*self._plan(), device=self._device))
        previous, was_final = self._progress.planned_steps, self._progress.plan_is_final
        self._progress.planned_steps, self._progress.plan_is_final = planned, bool(final)
        if planned >= self._options.max_steps:
            return ""
        minutes = f"{self._options.max_minutes:g} minutes"
        if was_final and planned < previous:
            return f"this machine has become slower: {planned} steps in {minutes}, not {previous}"
        return f"{planned} steps in {minutes}" if final and not was_final else ""

    def validated(self, seconds: float) -> str:
        """Record the duration of a validation; return a message, if any.

        If validations take more than `validate_share` of the time, `progress.validate_stride` is increased.
        """
        seconds, step_seconds = self._world.from_first(seconds, self._seconds_per_step(), device=self._device)
        self._validating += seconds
        self._longest_validation = max(self._longest_validation, seconds)
        share, every = self._options.validate_share, self._options.validate_every
        if seconds < _SHORT or share == 1 or not step_seconds:
            return ""
        stride = math.ceil(seconds / (share * step_seconds * every))
        if stride <= self._progress.validate_stride:
            return ""
        self._progress.validate_stride = stride
        return (
            f"a validation takes {seconds:.0f} seconds: from now on every {stride * every} steps, as it may take "
            f"{share:.0%} of the time (training.validate_share)"
        )

    def _plan(self) -> tuple[int, bool]:
        """Return the last step, and whether the plan is final, by this rank's clock."""
        progress, minutes, decays_from = self._progress, self._options.max_minutes, self._decays_from
        assert minutes is not None
        assert decays_from is not None
        limit, current_plan = minutes * 60, (progress.planned_steps, progress.plan_is_final)
        step_seconds = self._seconds_per_step()
        if not step_seconds or progress.seconds < _FIRST_PLAN * limit:
            return current_plan
        seconds_left = limit * (1 - _MARGIN) - progress.seconds - _FINAL_SEARCH * self._longest_validation
        possible = progress.step + max(
            1, int(seconds_left / (step_seconds + self._validation_per_step(step_seconds)))
        )
        if progress.plan_is_final:
            planned_left = progress.planned_steps - progress.step
            slower = len(self._recent) == _RECENT and possible - progress.step < _SHORTER * planned_left
            return (possible, True) if slower and seconds_left < planned_left * step_seconds else current_plan
        return possible, progress.seconds >= _LAST_PLAN * limit and progress.step >= decays_from * possible

    def _validation_per_step(self, step_seconds: float) -> float:
        """Return the seconds that validations will add to a step."""
        if not self._longest_validation:
            return self._options.validate_share * step_seconds
        return self._longest_validation / (self._options.validate_every * self._progress.validate_stride)

    def _seconds_per_step(self) -> float:
        """Return the mean seconds of a recent step without validations, 0 before there are two measurements."""
        if len(self._recent) < 2:
            return 0.0
        (first, began), (last, ended) = self._recent[0], self._recent[-1]
        return (ended - began) / (last - first)

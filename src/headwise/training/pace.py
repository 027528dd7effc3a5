"""The pace of a training, and what follows from it: which step is the last one in time, and how often to validate.

The first rank's clock decides for all ranks. What was decided is part of the progress in every checkpoint, so a run
resumes with it.
"""

from __future__ import annotations

import math
from collections import deque

import torch

from headwise.config import TrainingConfig
from headwise.training.parallel import World
from headwise.training.progress import Progress

_FIRST_PLAN, _LAST_PLAN = (
    0.025,
    0.1,
)  # shares of `max_minutes` after which the number of steps is estimated, and fixed
_MARGIN = 0.02  # share of `max_minutes` that stays free
_WARM_UP = 3  # steps that are slower than those to come
_RECENT = 50  # steps by which a slower machine is noticed
_SHORTER = 0.97  # of the steps to come: a smaller change isn't worth one
_FINAL_SEARCH = 2.0  # seconds of the final validation, which searches with a beam, for one of those before
_SHORT = 2.0  # seconds; validations that take less aren't made rarer


class Pace:
    """Measures steps and validations, and plans the rest of the training.

    `progress.planned_steps` is the last step in time, 0 before it is known; `progress.validate_stride` says that only
    every so-many-th of the configured validations is made.
    """

    def __init__(
        self, options: TrainingConfig, progress: Progress, world: World, device: torch.device, *, plans: bool
    ) -> None:
        """`plans` says whether the schedule ends at the last step, so that it must be known beforehand."""
        self._options, self._progress, self._world, self._device = options, progress, world, device
        self._plans = plans and options.max_minutes is not None
        if options.max_minutes != progress.planned_minutes:
            progress.planned_steps, progress.planned_minutes, progress.plan_is_final = (
                0,
                options.max_minutes,
                False,
            )
        self._steps = 0
        self._validating = self._longest_validation = 0.0
        self._recent: deque[tuple[int, float]] = deque(
            maxlen=_RECENT
        )  # steps, and seconds without validations

    @property
    def last_step(self) -> int:
        """The step at which training ends, as far as that is known."""
        planned = self._progress.planned_steps
        return min(planned, self._options.max_steps) if planned else self._options.max_steps

    def stepped(self) -> str:
        """Take account of a step, after `progress.seconds` was updated; returns a line to say, if any."""
        self._steps += 1
        if self._steps >= _WARM_UP:
            self._recent.append((self._progress.step, self._progress.seconds - self._validating))
        if not self._plans:
            return ""
        planned, final = self._plan() if self._world.first else (0, False)
        planned, final = (int(n) for n in self._world.sum(planned, float(final), device=self._device))
        before, known = self._progress.planned_steps, self._progress.plan_is_final
        self._progress.planned_steps, self._progress.plan_is_final = planned, bool(final)
        if planned >= self._options.max_steps:
            return ""
        minutes = f"{self._options.max_minutes:g} minutes"
        if known and planned < before:
            return f"this machine has become slower: {planned} steps in {minutes}, not {before}"
        return f"{planned} steps in {minutes}" if final and not known else ""

    def validated(self, seconds: float) -> str:
        """Take account of a validation that took so long; returns a line to say, if any.

        Where validations take more than `validate_share` of the time, only every so-many-th is made from then on.
        """
        (seconds,) = self._world.sum(seconds if self._world.first else 0.0, device=self._device)
        self._validating += seconds
        self._longest_validation = max(self._longest_validation, seconds)
        (each,) = self._world.sum(self._seconds_per_step() if self._world.first else 0.0, device=self._device)
        share, every = self._options.validate_share, self._options.validate_every
        if seconds < _SHORT or share == 1 or not each:
            return ""
        stride = math.ceil(seconds / (share * each * every))
        if stride <= self._progress.validate_stride:
            return ""
        self._progress.validate_stride = stride
        return (
            f"a validation takes {seconds:.0f} seconds: from now on every {stride * every} steps, as it may take "
            f"{share:.0%} of the time (training.validate_share)"
        )

    def _plan(self) -> tuple[int, bool]:
        """Return the last step and whether it is fixed, as the first rank sees it."""
        progress, minutes = self._progress, self._options.max_minutes
        assert minutes is not None
        limit, now = minutes * 60, (progress.planned_steps, progress.plan_is_final)
        each = self._seconds_per_step()
        if not each or progress.seconds < _FIRST_PLAN * limit:
            return now
        left = limit * (1 - _MARGIN) - progress.seconds - _FINAL_SEARCH * self._longest_validation
        possible = progress.step + max(1, int(left / (each * (1 + self._options.validate_share))))
        if progress.plan_is_final:
            to_come = progress.planned_steps - progress.step
            slower = len(self._recent) == _RECENT and possible - progress.step < _SHORTER * to_come
            return (possible, True) if slower and left < to_come * each else now
        final = progress.seconds >= _LAST_PLAN * limit
        return (possible, final) if final or not progress.planned_steps else now

    def _seconds_per_step(self) -> float:
        """Return the recent seconds of a step, 0 before there are any."""
        if len(self._recent) < 2:
            return 0.0
        (first, began), (last, ended) = self._recent[0], self._recent[-1]
        return (ended - began) / (last - first)

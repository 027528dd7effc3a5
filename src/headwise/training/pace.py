"""Training by the clock: the learning rate under `training.max_minutes`, its end, and the time of validations.

Under a time limit, a schedule that decays to zero follows the time instead of the steps. `Timing.left` is the share of
the schedule that is left. With r seconds until the deadline, a step of s seconds multiplies it by (r - s) / r: at a
constant speed, it falls linearly from 1 to 0; after a pause or a change of speed, the rest of the schedule is spread
over the rest of the time. So the rate doesn't jump, and the last step, after which there is no time for another one,
has a rate of zero. The warm-up takes its steps, or a fifth of the time if they take longer.

Validations, and checkpoints under a time limit, take at most `training.validate_share` of the time: one for which this
share of the time so far isn't enough is skipped, as is one that would begin so late that the end of training, which
validates and saves anyway, came after the deadline. Checkpoints take at most half of the share, to leave some for
validations. Before the first one is measured, a validation is expected to take as long as training on as many tokens,
since its forward pass takes a third of that and its search about the rest, and a checkpoint as long as a step.

The first rank's clock decides for all ranks. All that was decided is part of the progress in every checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from headwise.config import Config
from headwise.training.parallel.world import World
from headwise.training.progress import LONGEST_WARMUP, Progress, Timing
from headwise.training.schedule import clocked_rate, decays, learning_rate
from headwise.training.trial import WORTH

_MARGIN = 0.01  # share of `max_minutes` that is left as a margin
_LONGEST_END = 0.2  # greatest share of `max_minutes` for the final average and its scores
_FINAL_SEARCH = 2.0  # duration of the final validation, with beam search, relative to the last one
_LAST = 1.5  # a step that begins less than so many steps before the deadline is the last one
_SMOOTHING = 0.1  # weight of a step in the mean duration of a step
_OUTLIER = 2.0  # a step counts at most so many mean durations in it
# Greatest share of the warm-up in a step whose share of the time is larger than its own.
_FASTEST_WARMUP = 0.05
# Seconds of validations beyond their share, without a time limit, so that short trainings aren't changed.
_GRACE = 2.0
_LARGEST_STEP = 0.99  # share of what is left that one step may take, unless it is the last
_ROUNDING = 1e-9  # of a sum of the steps' shares of a warm-up

_TRIALS = 0.02  # share of the time for trials of other numbers of processes

Overhead = Literal["validation", "saving", "trial"]


class Pace:
    """The clock of a training: it decides the rate of each step, the last step, and whether to validate and save."""

    def __init__(
        self,
        config: Config,
        progress: Progress,
        world: World,
        device: torch.device,
        *,
        d_model: int,
        dev_tokens: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`progress` is that of the last checkpoint, if any, and is updated; `clock` returns seconds.

        `dev_tokens` is the number of target tokens of the development set.
        """
        self._options, self._schedule, self._d_model = config.training, config.schedule, d_model
        self._dev_tokens = dev_tokens
        self._progress, self._world, self._device, self._clock = progress, world, device, clock
        self._before = clock()
        self._says_skipped = True
        minutes = self._options.max_minutes
        self._limit = None if minutes is None else 60 * minutes
        self._follows_time = minutes is not None and decays(self._schedule)
        self._left_after = 1.0  # `Timing.left` as expected after the current step
        self._is_last = False  # whether there is no time for a step after the current one
        self.rate = 0.0  # of the current or last step
        if minutes != self._timing.minutes:
            self._begin_limit(minutes)

    @property
    def _timing(self) -> Timing:
        return self._progress.timing

    @property
    def last_step(self) -> int:
        """The step at which training ends, under a time limit as it is expected now."""
        most, seconds = self._options.max_steps, self._timing.step_seconds
        if self._limit is None or not seconds:
            return most
        return min(most, self._progress.step + round(max(0.0, self._until_deadline()) / seconds))

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has been reached."""
        if self._limit is None:
            return False
        return self._timing.left == 0 if self._follows_time else self._until_deadline() <= 0

    @property
    def seconds_left(self) -> float:
        """Expected seconds until the last step."""
        return (self.last_step - self._progress.step) * self._timing.step_seconds

    def start(self) -> None:
        """Begin to measure; what came before isn't training time."""
        self._before = self._clock()

    def begin_step(self) -> float:
        """Decide the learning rate of the step after `progress.step`."""
        step, most = self._progress.step + 1, self._options.max_steps
        if self._follows_time:
            by_time = self._left_by_time()
            self._is_last = by_time == 0
            self._left_after = min(by_time, max(0.0, 1 - step / most))
            self._warm_up(step, by_time)
            self.rate = clocked_rate(self._schedule, self._d_model, step, self._timing, self._left_after)
        else:
            self.rate = learning_rate(self._schedule, self._d_model, step, most)
        return self.rate

    def stepped(self) -> float:
        """Record that a step has ended, and return its seconds."""
        timing, remaining = self._timing, self._until_deadline() if self._limit is not None else 0.0
        seconds = self._tick()
        mean = timing.step_seconds
        timing.step_seconds += (_SMOOTHING * (min(seconds, _OUTLIER * mean) - mean)) if mean else seconds
        if self._follows_time:
            # What an unexpectedly long step leaves is for one of rate zero.
            timing.left *= 0.0 if self._is_last else max(1 - seconds / remaining, 1 - _LARGEST_STEP)
        return seconds

    def affords(self, kind: Overhead) -> bool:
        """Return whether there is time for a validation, with the checkpoint of a best one, a checkpoint or a trial."""
        options, timing, limited = self._options, self._timing, self._limit is not None
        spent = {"validation": 0.0, "saving": 0.0, "trial": 0.0, **timing.spent}
        if kind == "trial":
            allowed = _TRIALS * self._progress.seconds
            return self.seconds_left >= WORTH and spent["trial"] + timing.costs["trial"] <= allowed
        if options.validate_share == 1 or not (limited or kind == "validation"):
            return True
        allowed = options.validate_share * self._progress.seconds + (0.0 if limited else _GRACE)
        cost = self._cost("saving") if limited else 0.0
        needed = cost + (self._cost("validation") if kind == "validation" else 0.0)
        if limited and needed > self._until_deadline():
            return False
        if spent["validation"] + spent["saving"] + needed > allowed:
            return False
        return kind == "validation" or spent["saving"] + needed <= allowed / 2

    def skipped(self) -> str:
        """Return a message for the first time that something is skipped, else an empty string."""
        says, self._says_skipped = self._says_skipped, False
        what = "validations" if self._limit is None else "validations and checkpoints"
        share = f"{self._options.validate_share:.0%} of the time (training.validate_share)"
        return f"{what} may take {share}: some are skipped from now on" if says else ""

    def tried(self, seconds: float) -> None:
        """Record how long the last trial of numbers of processes took; one before training is no training time."""
        self._timing.costs["trial"] = seconds
        if self._progress.step:
            self._timing.spent["trial"] = self._timing.spent.get("trial", 0.0) + seconds
            self._progress.seconds += seconds

    @contextmanager
    def spending(self, kind: Overhead) -> Iterator[None]:
        """Measure a validation or a checkpoint."""
        self._tick()
        yield
        seconds = self._tick()
        self._timing.costs[kind] = seconds
        if kind == "validation" or self._limit is not None:
            self._timing.spent[kind] = self._timing.spent.get(kind, 0.0) + seconds

    def _begin_limit(self, minutes: float | None) -> None:
        """Begin to follow another time limit than before: what is left of it is left of the schedule."""
        progress, timing = self._progress, self._timing
        timing.minutes = minutes
        if not self._follows_time:
            return
        deadline = progress.seconds + self._until_deadline()
        timing.left = max(0.0, 1 - progress.seconds / deadline)
        warmup = max(1, self._schedule.warmup)
        if not timing.warmup_steps:
            timing.warmed = max(timing.warmed, min(1.0, progress.step / warmup))
            timing.warmup_steps = warmup if timing.warmed == 1 else 0

    def _cost(self, kind: Overhead) -> float:
        """Return the seconds that the next validation or checkpoint is expected to take: those of the last one."""
        progress, timing = self._progress, self._timing
        if kind in timing.costs or not progress.tokens:
            return timing.costs.get(kind, 0.0)
        steps = 1.0 if kind == "saving" else self._dev_tokens * progress.step / progress.tokens
        return steps * timing.step_seconds

    def _until_deadline(self) -> float:
        """Return the seconds until the last step should have ended, so that the end of training is in time."""
        assert self._limit is not None
        end = self._cost("saving") + _FINAL_SEARCH * self._cost("validation")
        return self._limit * (1 - _MARGIN) - min(end, _LONGEST_END * self._limit) - self._progress.seconds

    def _left_by_time(self) -> float:
        """Return the share of the schedule that is left after the next step, if it takes as long as the last ones."""
        remaining, seconds = self._until_deadline(), self._timing.step_seconds
        if remaining <= _LAST * seconds:
            return 0.0
        return self._timing.left * (1 - seconds / remaining)

    def _warm_up(self, step: int, left: float) -> None:
        """Advance the warm-up by one step, after which the share `left` of the time is left."""
        timing = self._timing
        if timing.warmup_steps:
            return
        by_time = (timing.left - left) / LONGEST_WARMUP
        timing.warmed += max(1 / max(1, self._schedule.warmup), min(by_time, _FASTEST_WARMUP))
        if timing.warmed > 1 - _ROUNDING:
            timing.warmed, timing.warmup_steps = 1.0, step
            timing.decays_from = max(timing.decays_from, self._left_after)

    def _tick(self) -> float:
        """Add the first rank's time since the last call to the training time, and return it in seconds."""
        now = self._clock()
        (seconds,) = self._world.from_first(now - self._before, device=self._device)
        self._before = now
        self._progress.seconds += seconds
        return seconds

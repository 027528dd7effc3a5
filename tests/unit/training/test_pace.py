from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, repeat

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from headwise.config import ScheduleConfig, TrainingConfig
from headwise.training.pace import Pace
from headwise.training.parallel.world import World
from headwise.training.progress import Progress
from headwise.training.schedule import learning_rate, with_shorter_warmup

CPU = torch.device("cpu")


def start(progress: Progress, *, decays_from: float | None = 0.0, **options: object) -> Pace:
    return Pace(TrainingConfig.model_validate(options), progress, World(), CPU, decays_from=decays_from)


def train(
    pace: Pace, progress: Progress, seconds: Iterator[float] | float, limit: float = math.inf
) -> list[str]:
    """Do steps of given durations until the last one, or until `limit` seconds are over; return the messages."""
    lines = []
    while progress.step < pace.last_step and progress.seconds < limit:
        progress.step += 1
        progress.seconds += seconds if isinstance(seconds, float) else next(seconds)
        lines.append(pace.stepped())
    return [line for line in lines if line]


@given(st.floats(0.2, 5.0), st.floats(1.0, 100.0), st.floats(1.0, 20.0), st.sampled_from([0.0, 0.8]))
@example(each=5.0, minutes=1.0, first=13.0, decays_from=0.0)  # the first step alone takes longer
@example(
    each=0.01, minutes=20.0, first=20.0, decays_from=0.0
)  # 120,000 steps; random draws of so many take a minute
def test_steady_steps_end_in_time_and_use_it(
    each: float, minutes: float, first: float, decays_from: float
) -> None:
    progress = Progress()
    pace = start(progress, decays_from=decays_from, max_minutes=minutes, max_steps=10_000_000)
    pauses = chain([first * each], repeat(each))
    train(pace, progress, pauses, limit=60 * minutes)  # where the training loop ends without a plan, too
    assert progress.seconds <= max(60 * minutes + each, first * each)
    assert progress.seconds >= 0.85 * 60 * minutes - each


def test_the_number_of_steps_is_said_once_and_kept() -> None:
    progress = Progress()
    pace = start(progress, max_minutes=10.0)
    lines = train(pace, progress, 1.0)
    assert lines == [f"{progress.step} steps in 10 minutes"]
    resumed = Progress(step=100, seconds=100.0, planned_steps=560, planned_minutes=10.0, plan_is_final=True)
    assert start(resumed, max_minutes=10.0).last_step == 560
    assert start(resumed, max_minutes=20.0).last_step == 100_000  # another limit discards the plan


def test_a_machine_that_slows_down_shortens_the_tail() -> None:
    progress = Progress()
    pace = start(progress, max_minutes=10.0)
    lines = train(pace, progress, chain(repeat(1.0, 200), repeat(1.5)))
    first = int(lines[0].split()[0])
    assert lines[1].startswith("this machine has become slower: ")
    assert lines[1].endswith(f" steps in 10 minutes, not {first}")
    assert progress.step < first
    assert progress.seconds <= 600


def test_a_machine_that_speeds_up_keeps_the_plan() -> None:
    progress = Progress()
    lines = train(start(progress, max_minutes=10.0), progress, chain(repeat(1.0, 200), repeat(0.5)))
    assert len(lines) == 1


@pytest.mark.parametrize("later", [0.5, 1.5])
def test_a_cooldown_is_planned_when_it_begins(later: float) -> None:
    """Until then the plan follows the machine, faster or slower, as the learning rate doesn't depend on it."""
    progress = Progress()
    pace = start(progress, decays_from=0.8, max_minutes=10.0)
    plans = []
    for step in range(1, 10_000):
        if progress.step == pace.last_step:
            break
        progress.step, progress.seconds = step, progress.seconds + (1.0 if step <= 100 else later)
        pace.stepped()
        if progress.plan_is_final:
            plans.append((progress.seconds, progress.planned_steps))
    assert 0.75 * 600 < plans[0][0] < 0.85 * 600
    assert len({steps for _, steps in plans}) == 1
    assert 560 < progress.seconds <= 600


def test_validations_count_as_long_as_they_are() -> None:
    """As long as none was measured, they are expected to take their whole share."""
    ends = []
    for validation in (0.0, 0.1, 1.9):
        progress = Progress()
        pace = start(progress, max_minutes=10.0, validate_every=10)
        while progress.step < pace.last_step:
            progress.step, progress.seconds = progress.step + 1, progress.seconds + 1.0
            if validation and not progress.step % 10:
                progress.seconds += validation
                pace.validated(validation)
            pace.stepped()
        assert progress.seconds <= 600
        ends.append(progress.step)
    assert ends[1] > ends[0] > ends[2]


def test_without_a_clock_nothing_is_planned() -> None:
    for options, decays_from in (({}, 0.0), ({"max_minutes": 1.0}, None)):
        progress = Progress()
        pace = start(progress, decays_from=decays_from, max_steps=50, **options)
        assert train(pace, progress, 1.0) == []
        assert progress.step == 50


def test_fewer_configured_steps_come_first() -> None:
    progress = Progress()
    assert train(start(progress, max_minutes=100.0, max_steps=700), progress, 1.0) == []
    assert progress.step == 700


@pytest.mark.parametrize(
    ("share", "seconds", "stride"),
    [(0.05, 1.9, 1), (0.05, 5.0, 1), (0.05, 6.0, 2), (0.1, 45.0, 5), (1.0, 1e6, 1)],
)
def test_validations_are_made_rarer_where_they_take_too_long(
    share: float, seconds: float, stride: int
) -> None:
    progress = Progress()
    pace = start(progress, max_steps=10, validate_every=100, validate_share=share)
    train(pace, progress, 1.0)
    line = pace.validated(seconds)
    assert progress.validate_stride == stride
    assert bool(line) == (stride > 1)
    assert pace.validated(seconds / 2) == ""  # and never more often again
    assert progress.validate_stride == stride


def test_a_shorter_warm_up_reaches_the_peak_in_a_fifth_of_the_steps() -> None:
    schedule = with_shorter_warmup(ScheduleConfig(name="linear", peak=1.0, warmup=600), 500)
    rates = [learning_rate(schedule, 8, step, 500) for step in range(1, 501)]
    assert rates.index(max(rates)) + 1 == 100
    assert max(rates) == 1.0
    assert rates[-1] == 0
    assert with_shorter_warmup(schedule, 10_000) is schedule

"""Training by a clock that the test drives."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file

from headwise.config import Config
from headwise.training.checkpoint import Checkpoints
from headwise.training.loop import Trainer
from headwise.training.pace import Pace
from headwise.training.parallel.world import World
from headwise.training.progress import Progress, read_progress
from headwise.training.schedule import learning_rate
from regression import Regression

CPU = torch.device("cpu")
PEAK, MINUTES = 0.004, 10.0
LIMIT = 60 * MINUTES
TOKENS = 100  # of a step
SCHEDULES: list[dict[str, Any]] = [
    {"name": "linear", "peak": PEAK},
    {"name": "cosine", "peak": PEAK},
    {"name": "inverse_sqrt", "peak": PEAK, "cooldown": 0.2},
    {"name": "constant", "peak": PEAK, "cooldown": 0.3},
]


class Simulation:
    """A training of steps, validations and checkpoints of given seconds, without a model."""

    def __init__(
        self,
        progress: Progress | None = None,
        schedule: dict[str, Any] = SCHEDULES[2],
        *,
        dev_tokens: int = 0,
        **training: Any,
    ) -> None:
        training = {"max_steps": 10**9, "validate_every": 50, "checkpoint_every": 10, **training}
        config = Config.from_tree({"schedule": {"warmup": 30, **schedule}, "training": training})
        self.config, self.progress, self.now = config, progress or Progress(), 0.0
        self.pace = Pace(config, self.progress, World(), CPU, d_model=8, dev_tokens=dev_tokens, clock=lambda: self.now)
        self.rates: list[float] = []
        self.done = {"validation": 0, "saving": 0}

    def step(self, seconds: float) -> float:
        """Do one step; return the seconds that were left for the training before it."""
        remaining = LIMIT - self.progress.seconds
        self.rates.append(self.pace.begin_step())
        self.progress.step += 1
        self.progress.tokens += TOKENS
        self.now += seconds
        self.pace.stepped()
        return remaining

    def overhead(self, validation: float, saving: float) -> None:
        """Validate and save after a step, if it is due and there is time."""
        for kind, seconds, every in (("validation", validation, 50), ("saving", saving, 10)):
            if self.progress.step % every == 0 and self.pace.affords(kind):  # pyright: ignore[reportArgumentType]
                with self.pace.spending(kind):  # pyright: ignore[reportArgumentType]
                    self.now += seconds
                self.done[kind] += 1


def speeds(kind: str, each: float, change: float, seed: int) -> Callable[[float], float]:
    """Return the seconds of a step by the time, of one kind of machine."""
    noise = random.Random(seed)
    return {
        "constant": lambda now: each,
        "slower": lambda now: each if now < change * LIMIT else 8 * each,
        "faster": lambda now: 8 * each if now < change * LIMIT else each,
        "busy": lambda now: 6 * each if change / 2 * LIMIT < now < change * LIMIT else each,
        "noise": lambda now: each * noise.uniform(0.2, 3.0),
    }[kind]


@given(
    st.sampled_from(["constant", "slower", "faster", "busy", "noise"]),
    st.floats(0.15, 0.5),
    st.floats(0.02, 0.99),
    st.floats(0.0, 4.0),
    st.sampled_from(SCHEDULES),
    st.integers(0, 99),
)
def test_whatever_the_speed_does_the_time_is_used_and_the_rate_falls_to_zero(
    kind: str, each: float, change: float, validation: float, schedule: dict[str, Any], seed: int
) -> None:
    seconds, longest = speeds(kind, each, change, seed), 8 * each
    run = Simulation(schedule=schedule, max_minutes=MINUTES)
    while not run.pace.out_of_time:
        remaining = run.step(seconds(run.now))
        if len(run.rates) > 1 and remaining > 0.05 * LIMIT:  # a step's share of the rest is small: no jumps
            before, after = run.rates[-2:]
            assert after - before <= PEAK * 0.05
            # the expected share of this step and the unexpected one of the last, and the square root's
            assert before - after <= before * (8 * longest / remaining + 1 / len(run.rates))
        run.overhead(validation, validation / 10)
    assert run.rates[-1] == 0
    assert run.progress.seconds <= LIMIT + 2 * longest
    end = validation / 10 + 2 * validation  # the last checkpoint and the final scores
    assert run.now + end >= 0.97 * LIMIT
    spent = run.done["validation"] * validation + run.done["saving"] * validation / 10
    assert spent <= max(0.05 * run.now, validation + validation / 10) + 1e-6  # the first of each is measured
    assert run.done["validation"] >= 1


@given(
    st.floats(0.5, 10.0),
    st.floats(0.0, 12.0),
    st.floats(0.8, 1.25),
    st.floats(0.0, 1.0),
    st.integers(1, 50),
)
@example(1.484375, 8.5, 1.0, 1.0, 31)  # its share would allow a second validation just before the deadline
def test_the_first_validation_and_the_final_scores_keep_to_their_time(
    each: float, steps: float, surprise: float, saving: float, every: int
) -> None:
    """A limit of 60 to 1,200 steps, and a development set of up to 12 steps' tokens, which take about as long."""
    validation, save = surprise * steps * each, saving * each
    run = Simulation(
        max_minutes=MINUTES, validate_every=every, checkpoint_every=10**6, dev_tokens=round(steps * TOKENS)
    )
    while not run.pace.out_of_time:
        run.step(each)
        if run.progress.step % every == 0 and run.pace.affords("validation"):
            with run.pace.spending("validation"):
                run.now += validation
            with run.pace.spending("saving"):  # of the best one
                run.now += save
            run.done["validation"] += 1
            spent = run.done["validation"] * (validation + save)
            assert spent <= 0.05 * run.now * max(1.0, surprise)
    end = save + 2 * validation  # the last checkpoint and the final scores
    expected = (steps * 2 + 1) * each
    if max(end, expected) <= 0.2 * LIMIT:
        # each may be off by a step, and by the surprise where nothing was measured
        assert 0.97 * LIMIT - abs(end - expected) <= run.now + end + 2 * each
        assert run.now + end <= LIMIT + abs(end - expected) + 2 * each


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_at_a_constant_speed_the_rate_is_that_of_as_many_steps(schedule: dict[str, Any]) -> None:
    run = Simulation(schedule=schedule, max_minutes=MINUTES, validate_share=0.001)
    while not run.pace.out_of_time:
        run.step(1.0)
    steps = len(run.rates)
    expected = [learning_rate(run.config.schedule, 8, step, steps) for step in range(1, steps + 1)]
    assert run.rates == pytest.approx(expected, abs=PEAK * 0.01)
    assert steps == pytest.approx(0.99 * LIMIT - 1, abs=1)  # a step is left for the last checkpoint


def test_the_warm_up_takes_at_most_a_fifth_of_the_time_and_is_not_repeated() -> None:
    run = Simulation(schedule={"name": "linear", "peak": PEAK, "warmup": 4000}, max_minutes=MINUTES)
    while not run.pace.out_of_time:
        run.step(1.0 if run.now < 300 else 0.1)
    top = run.rates.index(max(run.rates)) + 1
    assert top == run.progress.timing.warmup_steps == pytest.approx(0.2 * 0.99 * LIMIT, abs=2)
    assert max(run.rates) == pytest.approx(PEAK, rel=0.02)
    assert run.rates[:top] == sorted(run.rates[:top])
    assert run.rates[top:] == sorted(run.rates[top:], reverse=True)


def test_a_pause_does_not_move_the_rate() -> None:
    run = Simulation(schedule=SCHEDULES[0], max_minutes=MINUTES)
    while run.now < LIMIT / 2:
        run.step(0.5)
    with run.pace.spending("validation"):
        run.now += LIMIT / 10
    before = run.rates[-1]
    run.step(0.5)
    assert 0.99 * before < run.rates[-1] < before


@pytest.mark.parametrize("speed", ["constant", "slower", "noise"])
def test_what_was_decided_resumes_from_a_checkpoint(speed: str) -> None:
    """The same clock goes on as if there had been no interruption, to the bit."""
    whole, first = Simulation(max_minutes=MINUTES), Simulation(max_minutes=MINUTES)
    seconds = [speeds(speed, 0.8, 0.5, 1)(now) for now in range(0, 600)]
    for run in (whole, first):
        for each in seconds[:300]:
            run.step(each)
            run.overhead(2.0, 0.2)
    record = asdict(first.progress)
    second = Simulation(read_progress(Path("state.json"), record), max_minutes=MINUTES)
    second.now = first.now
    second.pace.start()
    for each in seconds[300:]:
        if whole.pace.out_of_time:
            break
        for run in (whole, second):
            run.step(each)
            run.overhead(2.0, 0.2)
    assert second.rates == whole.rates[300:]
    assert asdict(second.progress) == asdict(whole.progress)


def test_another_limit_spreads_the_schedule_anew() -> None:
    run = Simulation(max_minutes=MINUTES)
    while not run.pace.out_of_time:
        run.step(1.0)
    more = Simulation(run.progress, max_minutes=2 * MINUTES)
    assert not more.pace.out_of_time
    assert run.progress.timing.left == pytest.approx(0.5, abs=0.02)
    assert Simulation(run.progress, max_minutes=MINUTES).pace.out_of_time


def test_a_plan_of_an_earlier_version_is_read() -> None:
    """Its warm-up took at most a fifth of the planned steps."""
    earlier = {"validate_stride": 2, "planned_steps": 500, "planned_minutes": MINUTES, "plan_is_final": True}
    record = {**asdict(Progress(step=300, seconds=0.6 * LIMIT)), **earlier}
    del record["timing"]
    run = Simulation(read_progress(Path("state.json"), record), max_minutes=MINUTES)
    assert (run.progress.timing.warmed, run.progress.timing.warmup_steps) == (1.0, 100)
    assert run.progress.timing.left == pytest.approx(0.39, abs=0.01)
    while not run.pace.out_of_time:
        run.step(1.0)
    assert run.progress.seconds == pytest.approx(0.99 * LIMIT, abs=2)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("minutes", [MINUTES, 100 * MINUTES])
def test_fewer_configured_steps_come_first(schedule: dict[str, Any], minutes: float) -> None:
    """The rates are those without a time limit, which shortens no warm-up that it has time for."""
    run = Simulation(schedule=schedule, max_minutes=minutes, max_steps=200)
    for step in range(1, 201):
        run.step(1.0)
        assert run.rates[-1] == pytest.approx(learning_rate(run.config.schedule, 8, step, 200))
    assert run.rates[-1] == 0
    assert run.pace.last_step == 200
    assert not run.pace.out_of_time  # more steps may go on


def test_without_a_time_limit_the_steps_decide() -> None:
    run = Simulation(schedule=SCHEDULES[0], max_steps=100)
    for step in range(1, 101):
        run.step(random.Random(step).uniform(0.1, 9.0))
        assert run.rates[-1] == learning_rate(run.config.schedule, 8, step, 100)
    assert not run.pace.out_of_time


@pytest.mark.parametrize(("share", "done"), [(0.05, 3), (0.2, 10), (1.0, 10)])
def test_validations_are_skipped_where_they_take_too_long(share: float, done: int) -> None:
    run = Simulation(max_steps=500, validate_share=share)
    for _ in range(500):
        run.step(1.0)
        run.overhead(8.0, 0.1)
    assert run.done["validation"] == done
    assert run.done["saving"] == 50  # by the steps alone, without a time limit


def test_a_training_ends_in_time_and_resumes_from_any_checkpoint_to_the_bit(tmp_path: Path) -> None:
    now = 0.0

    def trainer(run: Path, minutes: float, stop: int = 0) -> Trainer:
        task = Regression()

        def pass_time(step: int) -> Callable[[], None]:
            def work() -> None:
                nonlocal now
                now += 0.5 if step < 40 else 2.0
                if step == stop:
                    raise KeyboardInterrupt

            return work

        task.at = {f"batch {step}": pass_time(step) for step in range(1, 200)}
        tree = {
            "schedule": {"name": "linear", "peak": 0.01, "warmup": 5},
            "training": {
                "max_minutes": minutes,
                "max_steps": 10_000,
                "checkpoint_every": 10,
                "validate_share": 1.0,
                "average_last": 1,
            },
        }
        return Trainer(task, Config.from_tree(tree), run, device=CPU, quiet=True, clock=lambda: now)

    ended = trainer(tmp_path / "whole", 2.0).fit()
    assert ended.finished == "reached 2 minutes"
    assert 0.97 * 120 <= ended.seconds <= 120
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "parts", 2.0, stop=55).fit()
    resumed = trainer(tmp_path / "parts", 2.0).fit()
    assert (resumed.step, resumed.seconds) == (ended.step, ended.seconds)
    models = []
    for run in ("whole", "parts"):
        latest = Checkpoints(tmp_path / run).latest()
        assert latest is not None
        models.append(load_file(latest / "model.safetensors"))
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])

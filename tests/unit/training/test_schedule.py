"""Learning-rate schedules against the paper's formula and their own definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headwise.config import ScheduleConfig
from headwise.training.schedule import decays, learning_rate

steps = st.integers(1, 300_000)
warmups = st.integers(1, 20_000)


@given(steps, warmups, st.sampled_from([128, 256, 512, 1024]))
def test_noam_is_equation_3(step: int, warmup: int, d_model: int) -> None:
    expected = 1 / math.sqrt(d_model) * min(1 / math.sqrt(step), step / (warmup * math.sqrt(warmup)))
    assert learning_rate(ScheduleConfig(warmup=warmup), d_model, step, 100_000) == pytest.approx(expected, rel=1e-12)


@given(warmups, st.integers(-500, 500))
def test_noam_is_highest_at_the_end_of_the_warm_up(warmup: int, distance: int) -> None:
    config = ScheduleConfig(warmup=warmup)
    highest = learning_rate(config, 512, warmup, 100_000)
    assert highest == pytest.approx((512 * warmup) ** -0.5, rel=1e-12)
    assert learning_rate(config, 512, max(1, warmup + distance), 100_000) <= highest * (1 + 1e-12)


@given(steps, warmups, st.floats(0.01, 100), st.integers(1, 50))
def test_noam_scales(step: int, warmup: int, scale: float, stretch: int) -> None:
    """The rate is proportional to `scale`; stretching steps and warm-up by s divides it by √s."""
    plain = learning_rate(ScheduleConfig(warmup=warmup), 512, step, 100_000)
    scaled = learning_rate(ScheduleConfig(warmup=warmup, scale=scale), 512, step, 100_000)
    assert scaled == pytest.approx(plain * scale, rel=1e-12)
    stretched = learning_rate(ScheduleConfig(warmup=warmup * stretch), 512, step * stretch, 100_000)
    assert stretched * math.sqrt(stretch) == pytest.approx(plain, rel=1e-12)
    # four times the width halves the rate
    assert learning_rate(ScheduleConfig(warmup=warmup), 2048, step, 1) == pytest.approx(plain / 2, rel=1e-12)


@given(steps, warmups, st.floats(1e-5, 0.1))
def test_inverse_sqrt_is_noam_with_the_same_peak(step: int, warmup: int, peak: float) -> None:
    noam = ScheduleConfig(warmup=warmup, scale=peak * math.sqrt(512 * warmup))
    config = ScheduleConfig(name="inverse_sqrt", warmup=warmup, peak=peak)
    expected = learning_rate(noam, 512, step, 100_000)
    assert learning_rate(config, 512, step, 100_000) == pytest.approx(expected, rel=1e-9)
    assert learning_rate(config, 64, step, 7) == learning_rate(config, 512, step, 100_000)


@pytest.mark.parametrize("name", ["inverse_sqrt", "linear", "cosine", "constant"])
@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 3000))
def test_the_others_rise_linearly_to_their_peak(name: str, warmup: int, more: int, step: int) -> None:
    peak, last = 0.003, warmup + more
    config = ScheduleConfig.model_validate({"name": name, "warmup": warmup, "peak": peak})
    rate = learning_rate(config, 512, step, last)
    assert 0 <= rate <= peak
    if step <= warmup:
        assert rate == pytest.approx(peak * step / warmup, rel=1e-12)
    if name == "constant" and step >= warmup:
        assert rate == peak


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(0, 1000))
def test_linear_and_cosine_fall_to_zero_at_the_last_step(warmup: int, more: int, into: int) -> None:
    last, step = max(warmup, 1) + more, max(warmup, 1) + min(into, more)
    done = (step - max(warmup, 1)) / more  # the share of the descent that is behind
    linear = ScheduleConfig(name="linear", warmup=warmup, peak=0.1)
    cosine = ScheduleConfig(name="cosine", warmup=warmup, peak=0.1)
    assert learning_rate(linear, 512, step, last) == pytest.approx(0.1 * (1 - done), abs=1e-12)
    assert learning_rate(cosine, 512, step, last) == pytest.approx(0.1 * math.cos(math.pi / 2 * done) ** 2, abs=1e-12)
    for config in (linear, cosine):
        assert learning_rate(config, 512, last, last) == pytest.approx(0.0, abs=1e-12)
        assert learning_rate(config, 512, last + 10, last) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["noam", "inverse_sqrt", "constant"])
@given(st.floats(0.05, 0.9), st.integers(1, 1000), st.integers(1, 3000))
def test_a_cooldown_brings_the_rate_linearly_to_zero(name: str, cooldown: float, warmup: int, last: int) -> None:
    """As in Hägele et al. 2024, before it the rates are those without one."""
    peak = {} if name == "noam" else {"peak": 0.01}
    plain = ScheduleConfig.model_validate({"name": name, "warmup": warmup, **peak})
    cooled = plain.model_copy(update={"cooldown": cooldown})
    begin = 1 - cooldown
    for step in {
        1,
        max(1, math.floor(begin * last)),
        math.ceil(begin * last),
        (last + 1) // 2,
        last,
        last + 1,
    }:
        if step < 1:
            continue
        before = learning_rate(plain, 512, step, last)
        expected = before * np.interp(step, [begin * last, last], [1.0, 0.0])
        assert learning_rate(cooled, 512, step, last) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert decays(cooled)
    assert not decays(plain)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_schedule_decays_once(name: str) -> None:
    with pytest.raises(ValidationError, match=f"schedule {name} decays to zero itself; found cooldown=0.2"):
        ScheduleConfig.model_validate({"name": name, "peak": 0.1, "cooldown": 0.2})

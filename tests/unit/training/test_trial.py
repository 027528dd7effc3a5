"""Trials of numbers of processes, with a small task and real worker processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from headwise.config import Config
from headwise.errors import TrainingError
from headwise.training import trial
from headwise.training.loop import Trainer
from headwise.training.parallel import workers as workers_module
from headwise.training.parallel.workers import Workers
from headwise.training.parallel.world import World
from headwise.training.trial import Division, Speed, Trial, candidates, choose_processes, likely_workers
from regression import Regression

CONFIG = Config.from_tree(
    {
        "batch": {"accumulate": 2},
        "optimizer": {"weight_decay": 0.1},
        "training": {"max_steps": 10_000_000},  # so long that workers may pay off
    }
)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorten trials; also undo changes of the number of threads."""
    monkeypatch.setattr(trial, "_SECONDS", 0.01)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def choose(task: Regression, say: Callable[[str], None], workers: Workers) -> Division:
    """Choose between one process of two threads and two processes of one."""
    torch.set_num_threads(2)
    return choose_processes(task, CONFIG, 2, [1, 2], workers, say)


def trial_workers(**job: Any) -> Workers:
    return Workers("regression:take_part_in_trials", {"config": CONFIG.model_dump(mode="json"), **job})


def test_a_trial_leaves_parameters_gradients_and_threads_as_they_were() -> None:
    task, lines = Regression(), []
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    with trial_workers() as workers:
        division = choose(task, lines.append, workers)
    (line,) = lines
    assert line.startswith(f"training.processes={division.processes}: target tokens/s in a trial: ")
    assert line.count(" with ") == 3
    after = task.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(parameter.grad is None for parameter in task.model.parameters())
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("disturbed", range(3))
def test_a_round_that_another_program_disturbs_decides_nothing(disturbed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes are a fourth faster, but one of their rounds is slow."""
    rounds = 0

    class Unstarted(Workers):
        """Workers that need not start."""

        def meet(self, size: int, threads: int, order: Any) -> World:
            return Pair()

    class Pair(World):
        """A world of two processes."""

        def leave(self) -> None: ...

    def time_steps(task: Regression, config: Config, world: World, trial: Trial) -> Speed:
        nonlocal rounds
        speed = 2600.0 if torch.get_num_threads() == 2 else 1500.0
        if isinstance(world, Pair):
            speed = 200.0 if rounds == disturbed else 3400.0
            rounds += 1
        return Speed(1.0, speed, speed)

    monkeypatch.setattr(trial, "time_steps", time_steps)
    assert choose(Regression(), lambda _: None, Unstarted("unused:unused", {})) == Division(2, 2)
    assert rounds == 3


def test_on_many_processors_one_thread_is_tried_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes 5 seconds with 64 threads, and 200 with one."""
    tried: dict[int, list[float]] = {1: [], 64: []}

    def time_steps(task: Regression, config: Config, world: World, trial: Trial) -> Speed:
        threads = torch.get_num_threads()
        seconds = {1: 200.0, 64: 5.0}[threads] / trial.fraction
        tried[threads].append(seconds)
        return Speed(seconds, 1000.0 / trial.fraction / seconds, 0.0)

    monkeypatch.setattr(trial, "time_steps", time_steps)
    with trial_workers() as workers:
        speeds = trial._measure(Regression(), CONFIG, 64, [1], workers)
    assert speeds == pytest.approx({Division(1, 64): 200.0, Division(1, 1): 5.0})
    assert len(tried[1]) == 1
    assert tried[1][0] < 10
    assert len(tried[64]) == 4


@pytest.mark.parametrize(("slow", "threads"), [(2, 1), (1, 2), (0, 2)])
def test_a_short_training_has_one_thread_where_that_is_faster(
    slow: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_steps(task: Regression, config: Config, world: World, trial: Trial) -> Speed:
        speed = 100.0 if torch.get_num_threads() == slow else 1000.0
        return Speed(0.001, speed, speed)

    monkeypatch.setattr(trial, "time_steps", time_steps)
    torch.set_num_threads(2)
    config = CONFIG.with_overrides(["training.max_steps=30"])
    with trial_workers() as workers:
        assert choose_processes(Regression(), config, 2, [1, 2], workers, lambda _: None) == Division(1, threads)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_reported_by_the_training(value: float, tmp_path: Path) -> None:
    task, lines = Regression(), []
    task.at["batch 2"] = lambda: value
    with trial_workers() as workers:
        assert choose(task, lines.append, workers) == Division(1, 2)
    assert lines == [f"training.processes=1: the trial ended early, because the loss is {value} for batch 2"]
    assert all(parameter.grad is None for parameter in task.model.parameters())  # batch 1 had some
    trainer = Trainer(task, CONFIG, tmp_path, device=torch.device("cpu"), quiet=True)
    with pytest.raises(TrainingError, match=rf"^step 1: the loss is {value} for batch 2; there is no checkpoint"):
        trainer.fit()


def test_a_loss_that_is_not_finite_in_a_worker_ends_the_trial_without_a_traceback(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, lines = Regression(), []
    monkeypatch.setattr(workers_module, "_EXIT_TIMEOUT", 2.0)
    with trial_workers(factor=math.nan) as workers:
        assert choose(task, lines.append, workers) == Division(1, 2)
        assert workers.failure() is None  # it waits for its next order
    assert lines == ["training.processes=1: the trial ended early, because the loss is nan for batch 2"]
    assert all(parameter.grad is None for parameter in task.model.parameters())
    assert not distributed.is_initialized()
    assert torch.get_num_threads() == 2
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("threads", "numbers"),
    [(1, [1]), (2, [1, 2]), (3, [1, 3]), (4, [1, 2, 4]), (16, [1, 4, 8, 16]), (6, [1, 3, 6])],
)
def test_numbers_of_processes_to_try(threads: int, numbers: list[int]) -> None:
    assert candidates(threads) == numbers


@pytest.mark.parametrize(
    ("options", "threads", "workers"),
    [
        ({"processes": 3}, 2, 2),
        ({"processes": 1}, 2, 0),
        ({}, 1, 0),
        ({}, 2, 1),
        ({}, 64, 7),
        ({"max_steps": 100}, 2, 0),
        ({"max_minutes": 0.5}, 2, 0),
        ({"max_minutes": 2.0}, 2, 1),
    ],
)
def test_workers_that_import_before_it_is_known_whether_they_pay(
    options: dict[str, Any], threads: int, workers: int
) -> None:
    training = Config.from_tree({"training": {"max_steps": 100_000, **options}}).training
    assert likely_workers(training, threads) == workers

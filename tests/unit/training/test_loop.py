"""The training loop with a small task, so that each step can be compared with torch by hand."""

from __future__ import annotations

import copy
import itertools
import math
import os
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headwise.checkpoints import read_state
from headwise.config import Config, TrainingConfig
from headwise.errors import TrainingError
from headwise.metrics import read_metrics
from headwise.nn.linear import GemmBackend, selected_gemm
from headwise.training.checkpoint import Checkpoints, Tensors
from headwise.training.loop import Interruption, Trainer
from headwise.training.loss import LossSum
from headwise.training.monitor import Monitor
from headwise.training.parallel.replica import Replica
from headwise.training.parallel.world import World
from headwise.training.progress import Progress
from headwise.weights import read_recipe
from regression import Numbers, Regression, numbers, squares


def trainer(run: Path, task: Regression | None = None, **training: Any) -> Trainer:
    """Return a trainer with a constant learning rate of 0.01."""
    accumulate, clip = training.pop("accumulate", 1), training.pop("clip_norm", None)
    tree = {
        "batch": {"accumulate": accumulate},
        "optimizer": {"clip_norm": clip, "beta1": 0.0, "beta2": 0.0, "epsilon": 1.0},
        "schedule": {"name": "constant", "peak": 0.01, "warmup": 0},
        "training": {
            "max_steps": 6,
            "validate_every": 100,
            "checkpoint_every": 100,
            "log_every": 1,
            **training,
        },
    }
    return Trainer(task or Regression(), Config.from_tree(tree), run, device=torch.device("cpu"), quiet=True)


def parameters(run: Path) -> Tensor:
    """Return all parameters of the newest checkpoint, flattened."""
    from safetensors.torch import load_file

    latest = Checkpoints(run).latest()
    assert latest is not None
    return torch.cat([tensor.flatten() for _, tensor in sorted(load_file(latest / "model.safetensors").items())])


def recorded(run: Path, kind: str = "train") -> list[dict[str, Any]]:
    return [record for record in read_metrics(run / "metrics.jsonl") if record["kind"] == kind]


@pytest.mark.parametrize("accumulate", [1, 2, 3])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_a_step_divides_the_summed_loss_once_by_all_its_tokens(
    accumulate: int, clip: float | None, tmp_path: Path
) -> None:
    """With betas 0 and epsilon 1, AdamW's step is rate · g / (|g| + 1), which determines the gradient g."""
    trainer(tmp_path, accumulate=accumulate, clip_norm=clip, max_steps=4).fit()
    model = Regression().model
    for step in range(4):
        batches = [numbers(step * accumulate + i + 1) for i in range(accumulate)]
        x, y = torch.cat([b.x for b in batches]), torch.cat([b.y for b in batches])
        loss = squares(model, Numbers(x, y, "all at once")) / len(y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        scale = 1.0 if clip is None else min(1.0, clip / (norm.item() + 1e-6))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                gradient = gradient * scale
                parameter -= 0.01 * gradient / (gradient.abs() + 1)
        record = recorded(tmp_path)[step]
        assert record["loss"] == pytest.approx(loss.item() / 2, rel=1e-5)  # its "nll" is half its loss
    expected = torch.cat([p.detach().flatten() for _, p in sorted(model.named_parameters())])
    torch.testing.assert_close(parameters(tmp_path), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("stop", range(1, 6))
def test_stopping_anywhere_changes_nothing_that_is_recorded(stop: int, tmp_path: Path) -> None:
    """The mean loss since the last report includes the steps before the interruption."""
    trainer(tmp_path / "whole", log_every=3).fit()
    task = Regression()
    task.at[f"batch {stop}"] = interrupt
    assert not trainer(tmp_path / "parts", task, log_every=3).fit().finished
    assert Checkpoints(tmp_path / "parts").steps() == [stop]
    assert trainer(tmp_path / "parts", log_every=3).fit().finished == "reached 6 steps"
    assert torch.equal(parameters(tmp_path / "parts"), parameters(tmp_path / "whole"))
    whole, parts = recorded(tmp_path / "whole"), recorded(tmp_path / "parts")
    assert [(r["step"], r["loss"]) for r in parts] == [(r["step"], r["loss"]) for r in whole]
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


class Twins(World):
    """Two ranks, of which the other one does what this one does."""

    def sum(self, *values: float, device: torch.device | None = None) -> list[float]:
        return [2 * value for value in values]

    def from_first(self, *values: float, device: torch.device | None = None) -> list[float]:
        return list(values)

    def gather(self, value: Any) -> list[Any]:
        return [value, copy.deepcopy(value)]

    def broadcast_parameters(self, tensors: Iterable[Tensor]) -> None:
        pass


def test_a_checkpoint_that_is_written_while_training_goes_on_has_the_timing_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replica(task: Regression, world: World, options: TrainingConfig, device: torch.device) -> Replica:
        return Replica(task, options)

    def saved(run: Path, task: Regression, world: World) -> dict[str, Any]:
        """Train with a clock that is a second later at each look; return the progress of step 2."""
        tree = {
            "schedule": {"name": "linear", "peak": 0.01, "warmup": 2},
            "training": {
                "max_minutes": 10,
                "max_steps": 4,
                "checkpoint_every": 2,
                "rank_timeout": 0,
                "validate_share": 1,
                "keep_checkpoints": "all",
            },
        }
        seconds, config = itertools.count().__next__, Config.from_tree(tree)
        Trainer(task, config, run, device=torch.device("cpu"), world=world, quiet=True, clock=seconds).fit()
        return read_state(Checkpoints(run).path(2))["progress"]

    expected = saved(tmp_path / "alone", Regression(), World())
    later, save = threading.Event(), Checkpoints.save

    def save_late(self: Checkpoints, tensors: Tensors, progress: Progress, *more: Any) -> Path:
        assert progress.step > 2 or later.wait(60)
        return save(self, tensors, progress, *more)

    monkeypatch.setattr(Checkpoints, "save", save_late)
    monkeypatch.setattr("headwise.training.loop.replicate", replica)
    task = Regression()
    task.at["batch 3"] = later.set
    found = saved(tmp_path / "two", task, Twins(size=2, shares_batches=True))
    assert found["timing"] == expected["timing"]
    assert found["seconds"] == expected["seconds"]


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_what_an_interruption_saved_is_not_averaged(tmp_path: Path) -> None:
    options = {"checkpoint_every": 2, "average_last": 3}
    trainer(tmp_path / "whole", **options).fit()
    task = Regression()
    task.at["batch 3"] = interrupt
    trainer(tmp_path / "parts", task, **options).fit()
    trainer(tmp_path / "parts", **options).fit()
    assert Checkpoints(tmp_path / "parts").steps() == [2, 4, 6]
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_a_finished_run_is_averaged_anew_where_that_has_changed(tmp_path: Path) -> None:
    trainer(tmp_path / "one", checkpoint_every=2, average_last=1).fit()
    trainer(tmp_path / "three", checkpoint_every=2, average_last=3).fit()
    assert (tmp_path / "one" / "model.safetensors").read_bytes() != (
        tmp_path / "three" / "model.safetensors"
    ).read_bytes()
    trainer(tmp_path / "three", checkpoint_every=2, average_last=1).fit()
    assert read_recipe(tmp_path / "three" / "model.safetensors")["steps"] == [6]
    averaged = [r for r in read_metrics(tmp_path / "three" / "metrics.jsonl") if r["kind"] == "averaged"]
    assert [r["step"] for r in averaged] == [6, 6]


def test_a_second_interruption_stops_at_once(tmp_path: Path) -> None:
    task = Regression()
    reached = []

    def twice() -> None:
        interrupt()
        reached.append("first")
        interrupt()
        reached.append("second")

    task.at["batch 3"] = twice
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, task, checkpoint_every=1).fit()
    assert reached == ["first"]
    assert Checkpoints(tmp_path).steps()[-1] == 2
    assert task.stream.closed


def test_signals_mean_what_they_did_after_training(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    trainer(tmp_path, max_steps=1).fit()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_training_in_a_thread_leaves_signals_alone() -> None:
    failures: list[Exception] = []

    def listen() -> None:
        try:
            with Interruption().listening():
                pass
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert not failures


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_and_is_located(value: float, tmp_path: Path) -> None:
    task = Regression()
    task.at["batch 6"] = lambda: value
    with pytest.raises(TrainingError) as raised:
        trainer(tmp_path, task, accumulate=2, checkpoint_every=1).fit()
    last = tmp_path / "checkpoints" / "step-00000002"
    message = str(raised.value)
    assert message.startswith(f"step 3: the loss is {value} for batch 6; the last good checkpoint is {last}; ")
    assert Checkpoints(tmp_path).latest() == last


def test_parameters_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    task = Regression()
    task.at["batch 2"] = lambda: setattr(task.model.bias, "data", torch.tensor([math.inf]))
    with pytest.raises(TrainingError, match=r"step 2: a parameter is not finite any more; .*there is no checkpoint"):
        trainer(tmp_path, task, checkpoint_every=2).fit()
    assert Checkpoints(tmp_path).steps() == []


class Counting(nn.Linear):
    """A linear map that counts its calls in a buffer, beside a constant one."""

    def __init__(self, *, persistent: bool) -> None:
        super().__init__(3, 1)
        self.register_buffer("fixed", torch.ones(2))
        self.register_buffer("calls", torch.zeros(()), persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


def test_a_buffer_that_training_changes_is_refused_as_checkpoints_lack_it(tmp_path: Path) -> None:
    task = Regression()
    task.model = Counting(persistent=False)
    assert trainer(tmp_path / "kept", task).fit().step == 6
    task.model = Counting(persistent=True)
    with pytest.raises(TrainingError, match=r"found the buffer calls, .* registered with persistent=False$"):
        trainer(tmp_path / "lost", task).fit()
    assert not (tmp_path / "lost" / "latest").exists()


def losses(*values: float) -> list[dict[str, float]]:
    return [{"loss": value} for value in values]


def test_the_lowest_loss_is_the_best(tmp_path: Path) -> None:
    task = Regression()
    task.scores = losses(3.0, 1.0, 2.0, 1.0)
    progress = trainer(tmp_path, task, validate_every=1, max_steps=4).fit()
    assert (progress.best, progress.best_step, progress.stale) == (-1.0, 2, 2)
    assert Checkpoints(tmp_path).best() == tmp_path / "checkpoints" / "step-00000002"


def test_the_highest_score_is_the_best_where_one_is_named(tmp_path: Path) -> None:
    task = Regression()
    task.scores = [{"loss": 1.0, "bleu": 2.0}, {"loss": 2.0, "bleu": 3.0}, {"loss": 0.5, "bleu": 1.0}]
    assert trainer(tmp_path, task, validate_every=1, max_steps=3, best_by="bleu").fit().best_step == 2


def test_patience_ends_training_and_more_of_it_goes_on(tmp_path: Path) -> None:
    task = Regression()
    task.scores = losses(1.0, 2.0, 2.0)
    progress = trainer(tmp_path, task, validate_every=1, patience=2).fit()
    assert (progress.step, progress.finished) == (3, "no better in 2 validations")
    assert task.validated == [False, False, False, True]
    task = Regression()
    task.scores = losses(2.0)
    assert trainer(tmp_path, task, validate_every=1, patience=2).fit().step == 3  # it had ended
    assert task.validated == []
    assert trainer(tmp_path, task, validate_every=1, patience=4).fit().step == 5


def test_without_development_data_nothing_is_best(tmp_path: Path) -> None:
    progress = trainer(tmp_path, validate_every=1, checkpoint_every=1, patience=1).fit()
    assert (progress.step, progress.best) == (6, None)
    assert Checkpoints(tmp_path).best() is None
    assert recorded(tmp_path, "dev") == []


def test_minutes_bound_the_training_time_over_all_starts(tmp_path: Path) -> None:
    progress = trainer(tmp_path, max_minutes=1e-9).fit()
    assert (progress.step, progress.finished) == (1, "reached 1e-09 minutes")
    assert trainer(tmp_path, max_minutes=1e-9).fit().step == 1
    assert trainer(tmp_path, max_minutes=10).fit().step == 6


@pytest.mark.parametrize(
    ("limit", "larger", "option"),
    [
        ({"max_steps": 2}, {"max_steps": 4}, "--max-steps"),
        ({"max_minutes": 1e-9}, {"max_minutes": 10}, "--max-minutes"),
        ({"validate_every": 1, "patience": 1}, {"validate_every": 1, "patience": 4}, "training.patience"),
    ],
)
def test_a_finished_run_says_what_trains_on(
    limit: dict[str, Any],
    larger: dict[str, Any],
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(options: dict[str, Any]) -> int:
        task = Regression()
        task.scores = losses(1.0)
        return trainer(tmp_path, task, **options).fit().step

    lines: list[str] = []
    monkeypatch.setattr(Monitor, "say", lambda _, line: lines.append(line))
    step = ended(limit)
    assert ended(limit) == step
    assert lines[-1].endswith(f"a larger {option} trains on")
    assert ended(larger) > step


def test_more_steps_go_on_from_the_end(tmp_path: Path) -> None:
    trainer(tmp_path, max_steps=2).fit()
    trainer(tmp_path, max_steps=5).fit()
    trainer(tmp_path / "whole", max_steps=5).fit()
    assert torch.equal(parameters(tmp_path), parameters(tmp_path / "whole"))


def test_the_end_is_reached_again_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(BaseException):
        """Simulates a kill."""

    def cut(self: Regression, *, final: bool = False) -> dict[str, float]:
        if final:
            raise Cut
        return {"loss": 1.0}

    with monkeypatch.context() as patch:
        patch.setattr(Regression, "validate", cut)
        with pytest.raises(Cut):
            trainer(tmp_path).fit()
    assert recorded(tmp_path, "averaged") == []
    task = Regression()
    task.scores = losses(0.5)
    trainer(tmp_path, task).fit()
    assert task.validated == [True]
    assert [record["loss"] for record in recorded(tmp_path, "averaged")] == [0.5]
    trainer(tmp_path, task).fit()
    assert task.validated == [True]  # once is enough


def test_best_is_named_though_a_kill_came_before(tmp_path: Path) -> None:
    task = Regression()
    task.scores = losses(1.0)
    trainer(tmp_path, task, validate_every=1, checkpoint_every=1, max_steps=1).fit()
    (tmp_path / "best").unlink()
    trainer(tmp_path, task, checkpoint_every=1, max_steps=2).fit()
    assert Checkpoints(tmp_path).best() == tmp_path / "checkpoints" / "step-00000001"


def test_only_the_steps_use_the_configured_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[str, GemmBackend]] = []

        def loss(self, batch: Numbers) -> LossSum:
            self.seen.append(("step", selected_gemm(batch.x)))
            return super().loss(batch)

        def validate(self, *, final: bool = False) -> dict[str, float]:
            self.seen.append(("validation", selected_gemm(torch.ones(1))))
            return super().validate(final=final)

    class Own(GemmBackend):
        """torch's products under another name."""

    task, products = Watched(), Own()
    config = Config.from_tree({"training": {"max_steps": 3, "validate_every": 1}})
    monkeypatch.setattr("headwise.training.loop.find_products", lambda name: products)
    Trainer(task, config, tmp_path, device=torch.device("cpu"), quiet=True).fit()
    assert [kind for kind, _ in task.seen].count("step") == 3
    assert {kind for kind, used in task.seen if used is products} == {"step"}
    assert {kind for kind, used in task.seen if used is not products} == {"validation"}

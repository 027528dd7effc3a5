"""`headwise train --estimate` against what the configuration implies, and against the training itself."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from headwise.config import Config
from headwise.models.counting import forward_flops
from headwise.tasks import estimate as estimating
from headwise.tasks.estimate import GPUS, UTILIZATION, Estimate, MemoryEstimate
from headwise.text.tokens.subwords import Subwords
from program import Call
from toy import Toy, write_toy


@pytest.fixture(autouse=True)
def _short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "_PROBE_SECONDS", 0.2)


def estimated(program: Call, toy: Toy, run: Path, *more: object) -> dict[str, Any]:
    outcome = program("train", "-c", toy.config, "--estimate", "--json", "training.processes=1", "-o", run, *more).ok()
    return json.loads(outcome.out)


def test_the_estimate_is_of_the_model_that_is_then_trained(program: Call, toy: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    record = estimated(program, toy, run, "--max-steps=1", "--watts=100")
    assert not (run / "model.safetensors").exists()
    trained = program("train", "-c", toy.config, "training.processes=1", "--max-steps=1", "--json", "-o", run).ok()
    done = json.loads(trained.out)
    for name, found in (("parameters", "parameters"), ("steps", "steps"), ("tokens", "target_tokens")):
        assert record[name] == done[found], name
    memory = record["memory"]
    assert memory["parameters"] == memory["gradients"] == 4 * record["parameters"]
    assert memory["optimizer"] == 8 * record["parameters"]
    # What the steps need beside all that may be memory which this process has freed before.
    assert min(size for part, size in memory.items() if part != "other") > 0
    assert memory["total"] == sum(size for part, size in memory.items() if part != "total")
    assert record["seconds"] == pytest.approx(record["tokens"] / record["tokens_per_second"])
    assert record["kilowatt_hours"] == pytest.approx(100 * record["seconds"] / 3.6e6)


def test_the_estimate_of_a_time_limit_is_that_of_the_steps_until_then(program: Call, toy: Toy, tmp_path: Path) -> None:
    record = estimated(program, toy, tmp_path / "run", "--max-steps=1000000", "--max-minutes=0.0001", "--gpu=h100")
    assert record["seconds"] == pytest.approx(0.006, abs=record["tokens"] / record["tokens_per_second"])


def test_operations_are_three_forward_passes(program: Call, tmp_path: Path) -> None:
    """Words of one letter are one subword each, and sentences are equally long, so that nothing is padded."""
    pairs = [(" ".join(words), " ".join(words)) for words in itertools.permutations("bdfgh", 4)]
    toy, run = write_toy(tmp_path, pairs), tmp_path / "run"
    record = estimated(program, toy, run, "--gpu=h100", "subwords.dropout=0", "subwords.size=15")
    vocabulary = Subwords.load(run / "prepared")
    length = 5  # with the end of the sentence
    assert {len(vocabulary.encode_target(target)) for _, target in pairs} == {length - 1}
    pair = forward_flops(Config.load(toy.config).model, vocabulary.target_size, length, length)
    assert record["flops"] == pytest.approx(3 * pair / length, rel=0.02)
    assert record["tokens_per_second"] == pytest.approx(UTILIZATION * GPUS["h100"].peak / record["flops"])
    assert (record["watts"], record["available"]) == (GPUS["h100"].watts, GPUS["h100"].memory)
    assert record["memory"]["program"] == record["memory"]["other"] == 0  # not measured for a GPU


def test_larger_batches_need_more_activations(program: Call, toy: Toy, tmp_path: Path) -> None:
    gpu = ("--gpu=v100",)
    small, large = (
        estimated(program, toy, tmp_path / name, *gpu, *more)
        for name, more in (("small", []), ("large", ["batch.tokens=400"]))
    )
    assert 1.5 < large["memory"]["activations"] / small["memory"]["activations"] < 2.5
    assert small["memory"]["gradients"] == 4 * small["parameters"]
    again = estimated(
        program, toy, tmp_path / "again", *gpu, "batch.tokens=400", "training.checkpoint_activations=true"
    )
    assert again["memory"]["activations"] < large["memory"]["activations"] / 1.5


@pytest.mark.parametrize(
    ("available", "devices"),
    [(None, 1), (1000, 1), (999, 2), (600, 2), (599, 3), (201, 800), (200, None), (100, None)],
)
def test_the_state_is_divided_over_devices_and_activations_are_not(
    available: float | None, devices: int | None
) -> None:
    memory = MemoryEstimate(parameters=200, gradients=200, optimizer=400, activations=150, program=20, other=30)
    size = {"parameters": 50, "tokens": 100, "flops": 1.0, "memory": memory, "tokens_per_second": 10.0}
    found = Estimate(**size, place="here", steps=7, watts=None, available=available)
    assert found.devices == devices
    assert found.seconds == 70
    lines = "\n".join(found.lines())
    assert "energy: unknown (give --watts)" in lines
    assert f"least number of devices: {'none' if devices is None else devices}" in lines

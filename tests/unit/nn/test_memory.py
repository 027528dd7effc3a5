"""Models that don't fit in memory are rejected before they are built; an upper bound spares counting the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from headwise.cli import main
from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.build import build_decoder_only, build_encoder_only, build_model
from headwise.nn import memory
from headwise.nn.memory import LOADING, check_fits, machine_memory

HUGE = ModelConfig(d_model=65_536, d_ff=262_144, heads=512, encoder_layers=100, decoder_layers=100)
CPU = torch.device("cpu")


def test_the_machine_has_memory() -> None:
    found = machine_memory()
    assert found is not None
    assert 2**28 < found < 2**60


@pytest.mark.parametrize(
    "build",
    [
        lambda: build_model(HUGE, 1000, 1000),
        lambda: build_decoder_only(ModelConfig(d_model=65_536, d_ff=262_144, heads=512, decoder_layers=100), 1000),
        lambda: build_encoder_only(ModelConfig(d_model=65_536, d_ff=262_144, heads=512, encoder_layers=100), 1000),
    ],
)
def test_a_model_beyond_the_memory_is_refused(build: Any) -> None:
    with pytest.raises(ConfigError, match=r"^model: expected one that fits the .* GB of this machine, found [\d,]+ p"):
        build()


@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional"])
def test_the_rough_count_is_never_too_small(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, encoder_layers=2, decoder_layers=2, d_model=32, d_ff=64, heads=2)
    exact = sum(p.numel() for p in build_model(config, 100, 100).parameters())
    assert exact <= memory._upper_bound(config, 100)


def test_exactly_what_is_needed_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(d_model=8)
    need = 10 * 11 * LOADING
    monkeypatch.setattr(memory, "machine_memory", lambda: need)
    check_fits(lambda: nn.Linear(10, 10), config, 0, CPU, each=LOADING)
    monkeypatch.setattr(memory, "machine_memory", lambda: need - 1)
    with pytest.raises(ConfigError, match="found 110 parameters"):
        check_fits(lambda: nn.Linear(10, 10), config, 0, CPU, each=LOADING)


@pytest.mark.parametrize("ask", [lambda: torch.zeros(10**15), lambda: bytearray(10**16)])
def test_memory_that_runs_out_is_one_sentence(
    ask: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "_run", lambda arguments: ask())
    assert main.run([]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("headwise: error: expected enough memory for what was asked, found too little (")


def test_another_error_of_torch_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_run", lambda arguments: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        main.run([])

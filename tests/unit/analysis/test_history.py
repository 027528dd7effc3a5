"""The model at its checkpoints and before training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headwise.analysis.difference import difference
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.tasks.run import train
from headwise.training.checkpoint import Checkpoints
from toy import Toy
from translator_run import make_run

TEXT, TARGET = "ba be di", "ka mi mo"


@pytest.fixture(scope="module")
def run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of four steps, of which the first one is so small that it changes nothing."""
    run = tmp_path_factory.mktemp("runs") / "toy"
    changes = [
        *("training.max_steps=4", "training.checkpoint_every=1", "training.average_last=1"),
        *("training.keep_checkpoints=all", "training.validate_every=4", "schedule.warmup=1000000"),
        "training.validate_bleu=false",
    ]
    train(Config.load(toy.config, changes), run, quiet=True)
    return run


def test_step_0_is_what_training_began_with(run: Path) -> None:
    tracer = TranslationTracer.load(run, "cpu")
    assert tracer.history is not None
    assert tracer.history.steps() == [0, 1, 2, 3, 4]
    first = load_file(Checkpoints(run).path(1) / "model.safetensors")
    _ = tracer.trained  # opened now, as that draws random numbers
    before = torch.random.get_rng_state()
    with tracer.model(parse_interventions(["checkpoint:0"])) as model:
        for name, parameter in model.named_parameters():
            # learning rate of step 1: 16^-0.5 · 10^-9, with Adam's first update at most 1 per parameter
            assert torch.allclose(parameter, first[name], rtol=0, atol=1e-6), name
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_checkpoint_is_the_run_with_its_parameters(run: Path, tmp_path: Path) -> None:
    tracer = TranslationTracer.load(run, "cpu")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("config.yaml", "spm.model"):
        (other / name).write_bytes((run / name).read_bytes())
    for step in (2, 4):
        weights = Checkpoints(run).path(step) / "model.safetensors"
        (other / "model.safetensors").write_bytes(weights.read_bytes())
        expected = TranslationTracer(Translator.load(other, device="cpu")).force(TEXT, TARGET)
        now = tracer.force(TEXT, TARGET, parse_interventions([f"checkpoint:{step}"]))
        assert now.log_probabilities == expected.log_probabilities
    last = tracer.force(TEXT, TARGET)  # the average of the last checkpoint alone
    assert last.log_probabilities == expected.log_probabilities


def test_a_checkpoint_combines_with_others_and_is_compared(run: Path) -> None:
    tracer = TranslationTracer.load(run, "cpu")
    before = tracer.trace(TEXT)
    after = tracer.trace(TEXT, parse_interventions(["checkpoint:0", "silence:cross.1.1"]))
    assert tracer.trace(TEXT).hypotheses == before.hypotheses
    ids = (*before.hypotheses[0].ids, 3)
    changed = difference(tracer, before, after)
    expected = tracer.force(TEXT, ids, after.interventions).log_probability
    assert changed.before_now == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("step", [5, 700])
def test_a_missing_step_is_named_with_those_there_are(run: Path, step: int) -> None:
    tracer = TranslationTracer.load(run, "cpu")
    with pytest.raises(ConfigError, match=rf"\(0, 1, 2, 3, 4\), found {step}"):
        tracer.force(TEXT, TARGET, parse_interventions([f"checkpoint:{step}"]))


def test_a_run_without_checkpoints_or_begun_elsewhere(tmp_path: Path, run: Path) -> None:
    alone = TranslationTracer.load(make_run(tmp_path / "alone"), "cpu")
    with pytest.raises(ConfigError, match=r"\(none\), found 0"):
        alone.force("A man", "Ein Mann", parse_interventions(["checkpoint:0"]))
    with pytest.raises(ConfigError, match="expected a run directory"):
        TranslationTracer(alone.translator).force("A man", "Ein Mann", parse_interventions(["checkpoint:0"]))
    tracer = TranslationTracer.load(run, "cpu")
    assert tracer.history is not None
    tracer.history.config = tracer.history.config.with_overrides(["training.initialize_from=elsewhere"])
    assert tracer.history.steps() == [1, 2, 3, 4]


def test_a_damaged_checkpoint_is_an_error(run: Path, tmp_path: Path) -> None:
    tracer = TranslationTracer.load(run, "cpu")
    file = Checkpoints(run).path(3) / "model.safetensors"
    content = file.read_bytes()
    try:
        file.write_bytes(content[:100])
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            tracer.force(TEXT, TARGET, parse_interventions(["checkpoint:3"]))
    finally:
        file.write_bytes(content)

"""The program to read beside the paper, against the real model, torch's loss and the search of the decoder."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from headwise.config import Config, ModelConfig
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.learn import from_scratch
from headwise.learn.from_scratch import BEGIN, END, Transformer
from headwise.learn.runs import load
from headwise.models.build import build_model, load_model
from headwise.text.tokens.subwords import BOS, EOS
from headwise.training.schedule import learning_rate
from headwise.weights import write_quantized
from translator_run import ENGLISH, make_run

FILE = Path(from_scratch.__file__)


def test_it_is_a_page_to_read() -> None:
    """At most 300 lines, and nothing but NumPy and the standard library."""
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
    assert imported <= {"__future__", "collections", "dataclasses", "typing", "numpy"}
    assert (BEGIN, END) == (BOS, EOS)


shapes = st.fixed_dictionaries(
    {
        "encoder_layers": st.integers(1, 3),
        "decoder_layers": st.integers(1, 3),
        "heads": st.sampled_from([1, 2, 4]),
        "d_model": st.sampled_from([8, 16]),
        "d_ff": st.integers(1, 20),
        "d_k": st.sampled_from([None, 3]),
        "d_v": st.sampled_from([None, 5]),
        "norm": st.sampled_from(["post", "pre"]),
        "share_embeddings": st.sampled_from(["all", "target", "none"]),
        "attention_bias": st.booleans(),
        "logit_bias": st.booleans(),
    }
)
VOCABULARY = 23
ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9)


@given(shape=shapes, source=ids, target=ids, seed=st.integers(0, 2**31))
@settings(deadline=None, max_examples=60)
def test_it_is_the_real_model(shape: dict[str, Any], source: list[int], target: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    config = ModelConfig.model_validate({**shape, "max_length": 16})
    real = build_model(config, VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in real.parameters():
            if parameter.dim() == 1:
                parameter.normal_(mean=0.5)
        seen = torch.rand(len(source)) < 0.8
        wanted = real.project(real(torch.tensor([source]), seen[None], torch.tensor([target])))
    weights = {name: p.detach().double().numpy() for name, p in real.named_parameters()}
    model = Transformer(weights, config.encoder_layers, config.decoder_layers, config.heads, config.norm)
    found = model.log_probabilities(source, target, seen.tolist())
    np.testing.assert_allclose(found, wanted[0].double().log_softmax(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("norm", "seed"), [("post", 5), ("pre", 0)])
def test_a_run_translates_as_with_beam_1(norm: str, seed: int, tmp_path: Path) -> None:
    """With seeds whose most probable tokens are none that the search forbids."""
    path = make_run(tmp_path / "run", norm=norm, max_length=100, seed=seed)
    run, translator = load(path), Translator.load(path, engine="pytorch")
    wanted = translator.translate(ENGLISH, beam=1, extra_length=50, allow_empty=True, allow_unknown=True)
    assert [run.translate(sentence) for sentence in ENGLISH] == [translation.text for translation in wanted]
    assert len({len(run.model.greedy(run.source(sentence))) for sentence in ENGLISH}) > 3
    assert run.pieces(ENGLISH[0])[-1] == "</s>"


def test_the_trace_holds_what_was_computed(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    run = load(path)
    source = run.source(ENGLISH[0])
    run.model.log_probabilities(source, [BEGIN, 7, 8])
    weights = run.model.trace["decoder.1.cross_attention.weights"]
    assert weights.shape == (2, 3, len(source))
    np.testing.assert_allclose(weights.sum(-1), 1)
    future = run.model.trace["decoder.0.self_attention.weights"][:, 0, 1:]
    assert not future.any()


@given(seed=st.integers(0, 2**31), epsilon=st.sampled_from([0.0, 0.1, 0.5]))
@settings(deadline=None, max_examples=20)
def test_smoothing_over_all_classes_is_torchs_and_over_the_others_sums_to_one(seed: int, epsilon: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 11, generator=generator, dtype=torch.float64)
    target = torch.randint(11, (5,), generator=generator)
    log_p = from_scratch.log_softmax(logits.numpy())
    wanted = functional.cross_entropy(logits, target, label_smoothing=epsilon)
    assert from_scratch.smoothed_loss(log_p, target.tolist(), epsilon) == pytest.approx(wanted.item())
    # the other convention is the first with ε · V / (V - 1)
    wanted = functional.cross_entropy(logits, target, label_smoothing=epsilon * 11 / 10)
    found = from_scratch.smoothed_loss(log_p, target.tolist(), epsilon, over="others")
    assert found == pytest.approx(wanted.item())


def test_the_learning_rate_is_the_trainings() -> None:
    config = Config.from_tree({})
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        assert from_scratch.learning_rate(step) == pytest.approx(
            learning_rate(config.schedule, config.model.d_model, step, 100_000)
        )


def test_quantized_weights_are_read_like_the_models(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    write_quantized(path / "model.safetensors", path / "model.safetensors", "int8")
    run = load(path)
    real = load_model(path, run.subwords.source_size, run.subwords.target_size)
    for name, parameter in real.named_parameters():
        np.testing.assert_array_equal(run.model.weights[name], parameter.detach().double().numpy())


@pytest.mark.parametrize("change", [{"positions": "rotary"}, {"activation": "gelu"}, {"key_value_heads": 1}])
def test_another_model_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", **change)
    with pytest.raises(ConfigError, match=f"expected model.{next(iter(change))}="):
        load(path)


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    (path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(CheckpointError, match="safetensors"):
        load(path)

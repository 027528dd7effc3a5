"""Frozen parts and LoRA: the formula, which parameters are trained, and that the result is an ordinary model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.config import Config, ModelConfig, TrainingConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.models.build import build_encoder_only, build_model
from headwise.nn.linear import Linear, LowRank, low_rank_layers, merged_parameters
from headwise.nn.multihead import MultiHeadAttention
from headwise.training.checkpoint import Checkpoints
from headwise.training.loop import Trainer
from headwise.training.loss import LossSum, r_drop_cross_entropy, smoothed_cross_entropy
from headwise.training.trainable import describe_trainable, merge_low_rank, select_trainable

SHAPE = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "heads": 2, "dropout": 0.0}


def transformer(**changes: Any) -> nn.Module:
    torch.manual_seed(0)
    return build_model(ModelConfig(**{**SHAPE, **changes}), 11, 11)


def options(**training: Any) -> TrainingConfig:
    return TrainingConfig(initialize_from="run", **training)


def lora(model: nn.Module, *, trained: bool = True, **fields: Any) -> nn.Module:
    """Add updates; as if `trained`, their B is not zero."""
    select_trainable(model, options(lora={"rank": 3, "alpha": 6.0, "projections": "all", **fields}))
    if trained:
        for _, layer in low_rank_layers(model):
            assert layer.low_rank is not None
            nn.init.normal_(layer.low_rank.B)
    return model


def trained(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def outputs(model: Any) -> Tensor:
    source, target = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([[2, 8, 9], [2, 10, 0]])
    model.compute_dtype = next(model.parameters()).dtype
    return model(source, source != 0, target)


def test_a_linear_map_computes_the_formula_of_hu_et_al() -> None:
    torch.manual_seed(0)
    layer = Linear(6, 4)
    layer.low_rank = LowRank(6, 4, rank=2, alpha=5.0)
    nn.init.normal_(layer.low_rank.B)
    nn.init.normal_(layer.bias)
    x = torch.randn(3, 6, dtype=torch.float64)
    w, b, A, B = (
        t.detach().double().numpy() for t in (layer.weight, layer.bias, layer.low_rank.A, layer.low_rank.B)
    )
    expected = x.numpy() @ w.T + b + 5.0 / 2 * (x.numpy() @ A.T @ B.T)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(layer.merged_weight().numpy(), w + 5.0 / 2 * B @ A, rtol=1e-6)


def test_dropout_acts_on_the_input_of_the_update_only() -> None:
    torch.manual_seed(0)
    layer = Linear(6, 4)
    update = layer.low_rank = LowRank(6, 4, rank=2, alpha=5.0, drop=0.5)
    x = torch.randn(1000, 6)
    assert_close(layer(x), layer.eval()(x))  # B is zero
    nn.init.normal_(update.B)
    exact = update.eval()(x)
    dropped = update.train()(x)
    assert not torch.allclose(dropped, exact)
    assert (dropped - exact).mean(0).abs().max() < 0.2 * exact.std()


def test_training_begins_with_the_model_as_it_was() -> None:
    model = transformer()
    before = outputs(model)
    assert torch.equal(outputs(lora(model, trained=False)), before)


@pytest.mark.parametrize("changes", [{}, {"key_value_heads": 1, "attention_bias": True, "gated": True}])
def test_merging_leaves_an_ordinary_model_with_the_same_outputs(changes: dict[str, Any]) -> None:
    ordinary = transformer(**changes).double()
    names = {name: p.shape for name, p in ordinary.named_parameters()}
    model = lora(transformer(**changes)).double()
    apart = outputs(model)
    assert not torch.allclose(apart, outputs(ordinary), atol=0.1)
    merged = merged_parameters(model)
    assert {name: p.shape for name, p in merged.items()} == names
    merge_low_rank(model)
    assert {name: p.shape for name, p in model.named_parameters()} == names
    assert all(torch.equal(p, merged[name]) for name, p in model.named_parameters())
    assert_close(outputs(model), apart)


@pytest.mark.parametrize(
    ("projections", "matrices"),
    [
        (["query", "value"], {"query", "value"}),
        (["feed_forward"], {"w1", "w2"}),
        ("all", {"query", "key", "value", "output", "w1", "w2"}),
    ],
)
def test_only_the_updates_of_the_chosen_projections_are_trained(projections: Any, matrices: set[str]) -> None:
    model = lora(transformer(), projections=projections)
    names = trained(model)
    assert {name.split(".")[-3] for name in names} == matrices
    assert {name.split(".")[-1] for name in names} == {"A", "B"}
    outputs(model).sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is not None} == names


def test_frozen_parts_get_no_update() -> None:
    model = transformer()
    select_trainable(model, options(freeze=["encoder"], lora={"rank": 2}))
    assert {name.split(".")[0] for name in trained(model)} == {"decoder"}
    described = describe_trainable(model, options(freeze=["encoder"], lora={"rank": 2}))
    assert described == "128 of them trained (frozen: encoder; LoRA of rank 2 on 4 matrices)"


@pytest.mark.parametrize(
    ("part", "frozen"),
    [
        ("encoder", lambda name: name.startswith("encoder")),
        ("decoder", lambda name: name.startswith("decoder")),
        ("embeddings", lambda name: "_embedding" in name or name.startswith("positions")),
        ("output", lambda name: name == "output_projection.weight"),
        ("self_attention", lambda name: ".self_attention." in name),
        ("cross_attention", lambda name: ".cross_attention." in name),
        ("feed_forward", lambda name: ".feed_forward." in name),
        ("norms", lambda name: "norm." in name),
    ],
)
def test_a_part_is_what_its_name_says(part: str, frozen: Any) -> None:
    model = transformer(share_embeddings="none", positions="learned", max_length=20, norm="pre")
    names = {name for name, _ in model.named_parameters()}
    select_trainable(model, TrainingConfig.model_validate({"freeze": [part]}))
    assert names - trained(model) == {name for name in names if frozen(name)} != set()


def test_the_output_may_be_shared_with_the_embeddings() -> None:
    model = transformer()
    select_trainable(model, TrainingConfig(freeze=["output"]))
    assert not model.get_parameter("source_embedding.weight").requires_grad


def test_what_cannot_be_frozen_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"training\.freeze\.0.*'encoder', 'decoder'.*found 'encoders'"):
        Config.from_tree({"training": {"freeze": ["encoders"]}})
    model = build_encoder_only(ModelConfig(encoder_layers=1, d_model=8, d_ff=12, heads=2), 11)
    with pytest.raises(ConfigError, match=r"expected parts of this model \(.*norms\), found cross_attention"):
        select_trainable(model, TrainingConfig(freeze=["cross_attention"]))
    with pytest.raises(ConfigError, match="leave something to train, found encoder, decoder, embeddings"):
        select_trainable(transformer(), TrainingConfig(freeze=["encoder", "decoder", "embeddings"]))
    with pytest.raises(ConfigError, match=r"projections of a Transformer that aren't frozen, found query"):
        select_trainable(
            transformer(), options(freeze=["encoder", "decoder"], lora={"rank": 1, "projections": ["query"]})
        )
    with pytest.raises(ConfigError, match=r"needs training\.initialize_from"):
        Config.from_tree({"training": {"lora": {"rank": 4}}})


@pytest.mark.parametrize("r_drop", [False, True])
def test_a_frozen_output_gets_no_gradient_and_its_input_the_same(r_drop: bool) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(6, 4), torch.randn(9, 4)
    targets = torch.tensor([1, 5, 8] if r_drop else [1, 5, 8, 0, 2, 3])
    gradients = []
    for frozen in (False, True):
        x, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_(not frozen)
        if r_drop:
            loss, _ = r_drop_cross_entropy(x, w, targets, 0.1, 2.0)
        else:
            loss, _ = smoothed_cross_entropy(x, w, targets, 0.1)
        loss.backward()
        assert (w.grad is None) == frozen
        gradients.append(x.grad)
    assert torch.equal(*gradients)


class Stream:
    """Batches that are a function of their position."""

    position = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.position += 1
        return type("Batch", (), {"target_tokens": 4, "position": self.position})()

    def state(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state(self, state: dict[str, Any]) -> None:
        self.position = state["position"]

    def close(self) -> None: ...


class Imitation:
    """A task that trains attention with LoRA to imitate another one."""

    d_model = 8

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(MultiHeadAttention(8, 2))
        self.teacher = MultiHeadAttention(8, 2)
        self.model[0].output.weight.requires_grad_(False)
        lora(self.model, trained=False, projections=["query", "key", "value"])

    def batches(self, rank: int, world: int) -> Stream:
        return Stream()

    def loss(self, batch: Any) -> LossSum:
        x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(batch.position))
        total = (self.model(x) - self.teacher(x)).square().sum()
        return LossSum(total, total.detach(), 4)

    def validate(self, *, final: bool = False) -> dict[str, float]:
        return {}

    def locate(self, batch: Any) -> str:
        return ""

    def identity(self) -> dict[str, str]:
        return {"data": "numbers"}


def trainer(run: Path, **training: Any) -> Trainer:
    tree = {
        "schedule": {"name": "constant", "peak": 0.05, "warmup": 0},
        "training": {"max_steps": 6, "checkpoint_every": 2, "average_last": 3, "log_every": 1, **training},
    }
    return Trainer(Imitation(), Config.from_tree(tree), run, device=torch.device("cpu"), quiet=True)


def test_the_average_is_of_the_merged_weights(tmp_path: Path) -> None:
    ended = trainer(tmp_path)
    frozen = {name: p.detach().clone() for name, p in Imitation().model.named_parameters()}
    ended.fit()
    assert not list(low_rank_layers(ended.model))
    averaged = load_file(tmp_path / "model.safetensors")
    assert averaged.keys() == dict(nn.Sequential(MultiHeadAttention(8, 2)).named_parameters()).keys()
    steps = [
        load_file(folder / "lora.safetensors") for folder in sorted((tmp_path / "checkpoints").glob("*"))
    ]
    assert len(steps) == 3
    for part in ("query", "key", "value"):
        name = f"0.{part}"
        assert all(torch.equal(step[f"{name}.weight"], frozen[f"{name}.weight"]) for step in steps)
        merged = [
            step[f"{name}.weight"].double().numpy()
            + 6.0
            / 3
            * step[f"{name}.low_rank.B"].double().numpy()
            @ step[f"{name}.low_rank.A"].double().numpy()
            for step in steps
        ]
        np.testing.assert_allclose(
            averaged[f"{name}.weight"].numpy(), np.mean(merged, axis=0), rtol=1e-5, atol=1e-7
        )
        assert np.abs(merged[-1] - merged[0]).max() > 1e-3
    assert torch.equal(averaged["0.output.weight"], frozen["0.output.weight"])
    moments = load_file(ended.checkpoints.path(6) / "optimizer.safetensors")
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in moments} == {"A", "B"}


def test_a_resumed_training_ends_with_the_same_bits(tmp_path: Path) -> None:
    trainer(tmp_path / "whole").fit()
    trainer(tmp_path / "parts", max_steps=3).fit()
    trainer(tmp_path / "parts").fit()
    for name in ("model", "lora", "optimizer", "random"):
        files = [Checkpoints(tmp_path / run).path(6) / f"{name}.safetensors" for run in ("whole", "parts")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_damaged_updates_are_found(tmp_path: Path) -> None:
    trainer(tmp_path).fit()
    file = Checkpoints(tmp_path).path(6) / "lora.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(
        CheckpointError, match=r"lora\.safetensors: expected the file that this checkpoint was saved"
    ):
        trainer(tmp_path, max_steps=8)

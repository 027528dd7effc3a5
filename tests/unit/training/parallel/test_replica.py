"""The model of a training in one process: activations that are computed again; and what several can't divide."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from headwise.config import ModelConfig, TrainingConfig
from headwise.errors import ConfigError
from headwise.models.build import build_model
from headwise.models.contrastive import ImageText
from headwise.training.parallel import replica
from headwise.training.parallel.replica import replicate
from headwise.training.parallel.world import World


class TaskOfTokens:
    """A task whose loss is the sum of a model's logits of fixed tokens."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.tokens = torch.tensor([[5, 6, 7, 3]])

    def loss(self, _: object) -> Any:
        total = self.model(self.tokens, self.tokens != 0, self.tokens).float().square().sum()
        return type("Loss", (), {"total": total, "nll": total.detach()})


def test_replicas_one_after_the_other_recompute_each_layer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    recomputing = replica.checkpoint

    def counted(function: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(function)
        return recomputing(function, *arguments, **options)

    monkeypatch.setattr(replica, "checkpoint", counted)
    shape = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 8, "d_ff": 8, "heads": 2, "dropout": 0.0}
    torch.manual_seed(1)
    model = build_model(ModelConfig.model_validate(shape), 10, 10)
    task = cast("Any", TaskOfTokens(model))
    model.train()
    plain, recomputed = TrainingConfig(), TrainingConfig(checkpoint_activations=True)
    gradients = []
    for options in (plain, recomputed, recomputed, recomputed):
        made = replicate(task, World(), options, torch.device("cpu"))
        made.loss(None)[0].backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
        model.zero_grad(set_to_none=True)
        made.close()
    assert len(calls) == 3 * 3
    for one in gradients[1:]:
        torch.testing.assert_close(one, gradients[0])


def test_a_parameter_that_can_not_be_divided_is_named() -> None:
    model = ImageText(ModelConfig(encoder_layers=1, d_model=8, d_ff=8, heads=2), (1, 4, 4), 2, 10, 4)
    task = cast("Any", TaskOfTokens(model))
    with pytest.raises(ConfigError, match=r"training\.parallel: expected ddp, as log_scale .*, found fsdp"):
        replicate(task, World(size=2), TrainingConfig(parallel="fsdp"), torch.device("cpu"))

"""The optimizer is PyTorch's AdamW, without the wrappers for PyTorch's compiler."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headwise.config import OptimizerConfig
from headwise.training.optimizer import Adam


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_and_state_are_those_of_adamw(weight_decay: float) -> None:
    torch.manual_seed(1)
    options = OptimizerConfig(weight_decay=weight_decay)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    adam = Adam(ours.parameters(), options)
    adamw = torch.optim.AdamW(
        theirs.parameters(),
        lr=0.0,
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        weight_decay=weight_decay,
        fused=True,
    )
    for step in range(1, 6):
        given = torch.randn(7, 5)
        for model, optimizer in ((ours, adam), (theirs, adamw)):
            optimizer.param_groups[0]["lr"] = 0.1 * step
            model(given).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert ours.weight.grad is None
    for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, expected)
    state, expected = adam.state_dict(), adamw.state_dict()
    assert state["param_groups"] == expected["param_groups"]
    again = Adam(ours.parameters(), options)
    again.load_state_dict(expected)
    for mine, moments in zip(again.state.values(), expected["state"].values(), strict=True):
        assert all(torch.equal(mine[name], moments[name]) for name in moments)

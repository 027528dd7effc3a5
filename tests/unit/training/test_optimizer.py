"""Adam and Muon against PyTorch's own optimizers, and the orthogonalization against a singular value decomposition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.config import Config, ModelConfig, OptimizerConfig
from headwise.errors import ConfigError
from headwise.models.build import build_model
from headwise.training.optimizer import (
    ADAM_STATE,
    MUON_STATE,
    Adam,
    Muon,
    build_optimizer,
    layer_matrices,
    orthogonalized,
    state_keys,
)
from headwise.training.parallel.world import World

MUON = OptimizerConfig(name="muon")


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


def matrices_of(count: int, rows: int, columns: int, smallest: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Matrices and their singular value decomposition, with singular values from 1 down to `smallest`."""
    rank = min(rows, columns)
    u, _ = torch.linalg.qr(torch.randn(count, rows, rank, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(count, columns, rank, dtype=torch.float64))
    s = torch.logspace(0, torch.tensor(smallest).log10().item(), rank, dtype=torch.float64).repeat(count, 1)
    return (u * s[:, None]) @ v.mT, u, s, v


@given(
    count=st.integers(1, 4),
    rows=st.integers(1, 24),
    columns=st.integers(1, 24),
    size=st.floats(1e-3, 1e3),
    seed=st.integers(0, 1000),
)
def test_singular_vectors_stay_and_singular_values_become_about_one(
    count: int, rows: int, columns: int, size: float, seed: int
) -> None:
    torch.manual_seed(seed)
    x, u, _, v = matrices_of(count, rows, columns, 0.05)
    found = u.mT @ orthogonalized((size * x).float(), torch.float32).double() @ v
    values = found.diagonal(dim1=-2, dim2=-1)
    assert ((values > 0.6) & (values < 1.3)).all()
    assert_close(found - torch.diag_embed(values), torch.zeros_like(found), rtol=0, atol=1e-4)


def test_the_orthogonalization_is_pytorchs() -> None:
    """PyTorch computes it in bfloat16, matrix by matrix."""
    from torch.optim._muon import _zeropower_via_newtonschulz  # pyright: ignore[reportPrivateImportUsage]

    torch.manual_seed(1)
    x = torch.randn(3, 12, 20)
    expected = [_zeropower_via_newtonschulz(one, (3.4445, -4.7750, 2.0315), 5, 1e-7).float() for one in x]
    for dtype, tolerance in ((torch.bfloat16, 0.04), (torch.float32, 0.05)):
        assert_close(orthogonalized(x, dtype), torch.stack(expected), rtol=0, atol=tolerance)


def test_a_gradient_of_zeros_changes_nothing() -> None:
    assert torch.equal(orthogonalized(torch.zeros(2, 3, 4), torch.float32), torch.zeros(2, 3, 4))


class Layers(nn.Module):
    """Two matrices of one shape, one of another, and a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.third = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of all three maps."""
        return self.third(self.second(self.first(x).tanh()).tanh())


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_pytorchs_muon_and_of_adam(weight_decay: float) -> None:
    torch.manual_seed(1)
    options = OptimizerConfig(name="muon", weight_decay=weight_decay, momentum=0.9, matrix_rate=3)
    ours, theirs = Layers(), Layers()
    theirs.load_state_dict(ours.state_dict())
    muon = Muon(
        [ours.first.weight, ours.second.weight, ours.third.weight],
        [ours.third.bias],
        options,
        world=World(),
        dtype=torch.bfloat16,
    )
    their_muon = torch.optim.Muon(
        [theirs.first.weight, theirs.second.weight, theirs.third.weight],
        momentum=0.9,
        weight_decay=weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    their_adam = Adam([theirs.third.bias], options)
    before = [parameter.detach().clone() for parameter in ours.parameters()]
    for step in range(1, 8):
        for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.randn_like(mine)
            expected.grad = mine.grad.clone()
        for optimizer in (muon, their_muon, their_adam):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * step * (3 if optimizer is their_muon else 1)
            optimizer.step()
            optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in ours.parameters())
    assert torch.equal(ours.third.bias, theirs.third.bias)
    for old, mine, expected in zip(before, ours.parameters(), theirs.parameters(), strict=True):
        assert (mine - expected).norm() < 0.02 * (expected - old).norm()


def test_a_parameter_without_gradient_is_left_alone() -> None:
    model = Layers()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    muon = Muon(
        [model.first.weight, model.second.weight],
        [model.third.weight],
        MUON,
        world=World(),
        dtype=torch.float32,
    )
    for group in muon.param_groups:
        group["lr"] = 0.1
    model.first(torch.randn(5, 6)).square().sum().backward()
    muon.step()
    changed = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {"first.weight"}


@pytest.mark.parametrize("gated", [False, True])
def test_the_matrices_of_a_transformers_layers_are_muons(gated: bool) -> None:
    config = ModelConfig(encoder_layers=1, decoder_layers=2, d_model=16, d_ff=32, heads=2, gated=gated)
    model = build_model(config, 30, 30)
    matrices = layer_matrices(model)
    assert set(matrices) == {
        name
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and "embedding" not in name and "output_projection" not in name
    }
    attention = 4 * (1 + 2 * 2)
    assert len(matrices) == attention + 3 * (3 if gated else 2)
    keys = state_keys(model, MUON)
    assert {name for name, each in keys.items() if each == MUON_STATE} == set(matrices)
    assert set(state_keys(model, OptimizerConfig()).values()) == {ADAM_STATE}
    model.requires_grad_(False)
    model.get_parameter("encoder.0.feed_forward.w1.weight").requires_grad_(True)
    assert list(state_keys(model, MUON).values()) == [MUON_STATE]
    optimizer = build_optimizer(model, MUON, World())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 1


def test_a_model_without_such_matrices_needs_adam() -> None:
    config = ModelConfig(architecture="recurrent", encoder_layers=1, decoder_layers=1, d_model=16, heads=2)
    model = build_model(config, 30, 30)
    with pytest.raises(ConfigError, match="expected adam for a model without trained matrices"):
        build_optimizer(model, MUON, World())


def test_muons_options_need_muon() -> None:
    with pytest.raises(ConfigError, match="is Muon's: expected name=muon beside it"):
        Config.from_tree({"optimizer": {"momentum": 0.9}})


def test_what_is_unwrapped_is_wrapped() -> None:
    """PyTorch documents neither its wrappers nor `__wrapped__`; without them, `_Uncompiled` is superfluous."""
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        assert hasattr(getattr(torch.optim.Optimizer, name), "__wrapped__"), name
    assert hasattr(torch.optim.AdamW.step, "__wrapped__")

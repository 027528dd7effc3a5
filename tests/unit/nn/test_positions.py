"""Positions against the formula of section 3.5."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.nn import positions
from headwise.nn.positions import Positions, SinusoidalPositions, sinusoids


@given(st.integers(0, 2000), st.integers(1, 64), st.data())
def test_the_papers_formula(position: int, half: int, data: st.DataObject) -> None:
    d_model = 2 * half
    i = data.draw(st.integers(0, half - 1))
    row = sinusoids(position + 1, d_model)[position]
    angle = position / 10000 ** (2 * i / d_model)
    assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-7)
    assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


@pytest.mark.parametrize(("kind", "start"), [("tensor2tensor", 0), ("fairseq", 2)])
@given(st.integers(0, 1000), st.integers(2, 64), st.data())
def test_the_sinusoids_of_other_toolkits(kind: str, start: int, position: int, half: int, data: st.DataObject) -> None:
    i = data.draw(st.integers(0, half - 1))
    table = Positions(kind, position + 1, 2 * half).table
    assert table is not None
    angle = (position + start) * math.exp(-i * math.log(10000) / (half - 1))
    assert table[position, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
    assert table[position, half + i].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("kind", ["sinusoidal", "tensor2tensor", "fairseq"])
def test_sinusoids_need_pairs_of_dimensions(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind} positions need an even d_model, found 5"):
        Config.from_tree({"model": {"d_model": 5, "heads": 1, "positions": kind}})
    with pytest.raises(ConfigError, match="d_model: expected an even one for sinusoids, found 5"):
        SinusoidalPositions(5)
    if kind != "sinusoidal":
        with pytest.raises(ConfigError, match=f"{kind} positions need a d_model of at least 4, found 2"):
            Config.from_tree({"model": {"d_model": 2, "heads": 1, "positions": kind}})


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_each_position_gets_its_own_row_of_the_table(kind: str) -> None:
    positions = Positions(kind, length=9, d_model=4)
    assert positions.table is not None
    x = torch.randn(3, 5, 4)
    torch.testing.assert_close(positions(x) - x, positions.table[:5].expand(3, 5, 4))
    for start in range(5):
        torch.testing.assert_close(positions(x, start), x + positions.table[start : start + 5])
    # one position at a time is the same as all at once
    steps = [positions(x[:, i : i + 1], start=i) for i in range(5)]
    assert torch.equal(torch.cat(steps, 1), positions(x))


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("time", "start", "found"), [(10, 0, 10), (1, 9, 10), (4, 7, 11)])
def test_a_sequence_past_the_table_is_refused(kind: str, time: int, start: int, found: int) -> None:
    positions = Positions(kind, length=9, d_model=4)
    with pytest.raises(ValueError, match=rf"expected at most 9 positions \(model.max_length\), found {found}"):
        positions(torch.zeros(1, time, 4), start)


def test_only_learned_positions_are_trained_and_saved() -> None:
    fixed, learned, none = (Positions(kind, 9, 4) for kind in ("sinusoidal", "learned", "none"))
    assert not list(fixed.parameters())
    assert not fixed.state_dict()  # sinusoids are a formula: a checkpoint does not carry them
    assert [p.shape for p in learned.parameters()] == [(9, 4)]
    assert list(learned.state_dict()) == ["table"]
    assert not list(none.parameters())
    x = torch.randn(1, 20, 4)
    assert none(x, start=100) is x


def test_the_dtype_of_the_activations_is_kept() -> None:
    for kind in ("sinusoidal", "learned"):
        assert Positions(kind, 9, 4)(torch.zeros(1, 2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_an_encoding_of_ones_own_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_ENCODINGS", dict(positions._ENCODINGS))
    for value in (1.0, 2.0):  # as a notebook's cell that runs again
        positions.register_table("flat")(lambda length, d_model, value=value: torch.full((length, d_model), value))
    assert Positions("flat", 3, 2)(torch.zeros(1, 3, 2)).eq(2).all()
    with pytest.raises(ConfigError, match=r"encoding rotary: expected a new name, found one that headwise\.nn\."):
        positions.register_table("rotary")(sinusoids)

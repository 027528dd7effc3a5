"""The diagonal state space against its recurrence, and its guarantees: gradients, causality, a fixed-size state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.build import build_model
from headwise.models.decoder_only import DecoderOnly
from headwise.nn.attention import Layer, attend, attention_kind, registered
from headwise.nn.cache import RecurrentCache
from headwise.nn.kinds.state_space import StateSpace
from headwise.nn.memory import saved_bytes
from headwise.nn.recording import recording


def layer(
    d_model: int = 4, causal: bool = True, dtype: torch.dtype = torch.float64, seed: int = 0, **options: Any
) -> StateSpace:
    """Build a layer with random parameters, and steps long enough to have an effect within a few positions."""
    torch.manual_seed(seed)
    options = {"size": 4, "chunk": 5, "shortest": 0.05, "longest": 0.5, **options}
    config = ModelConfig.model_validate(
        {
            "d_model": d_model,
            "heads": 1,
            "attention_bias": True,
            "positions": "none",
            "attention_options": {"state_space": options},
        }
    )
    built = StateSpace(config, causal=causal).to(dtype)
    with torch.no_grad():
        for parameter in (built.log_decay, built.frequency, built.skip, built.output.bias):
            parameter.add_(0.5 * torch.randn_like(parameter))
    return built


def recurrence(module: StateSpace, x: Tensor) -> np.ndarray:
    """The recurrence of section 3, a position and a channel at a time, in complex128; (batch, time, d_model)."""
    p = {name: value.detach().double().numpy() for name, value in module.named_parameters()}
    u = x.double().numpy()
    y = u * p["skip"]
    for direction in range(module.directions):
        for b, channel in np.ndindex(u.shape[0], u.shape[2]):
            a = -np.exp(p["log_decay"][direction, channel]) + 1j * p["frequency"][direction, channel]
            a_bar = np.exp(np.exp(p["log_step"][direction, channel]) * a)
            c = p["readout"][direction, channel] @ np.array([1, 1j])
            state = np.zeros(len(a), dtype=complex)
            times = range(u.shape[1])
            for t in times if direction == 0 else reversed(times):
                state = a_bar * state + (a_bar - 1) / a * u[b, t, channel]
                # the conjugates' half of the system, written out
                y[b, t, channel] += (c @ state + c.conj() @ state.conj()).real
    normal = torch.distributions.Normal(0.0, 1.0)
    hidden = y * normal.cdf(torch.from_numpy(y)).numpy() @ p["output.weight"].T + p["output.bias"]
    value, gate = np.split(hidden, 2, axis=-1)
    return value / (1 + np.exp(-gate))


@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    time=st.integers(1, 30),
    d_model=st.integers(1, 4),
    states=st.integers(1, 4),
    chunk=st.integers(1, 12),
    causal=st.booleans(),
    start=st.sampled_from(["linear", "inverse"]),
)
@settings(deadline=None, max_examples=60)
def test_it_is_the_recurrence(
    seed: int, batch: int, time: int, d_model: int, states: int, chunk: int, causal: bool, start: str
) -> None:
    module = layer(d_model, causal, seed=seed, size=2 * states, chunk=chunk, start=start)
    x = torch.randn(batch, time, d_model, dtype=torch.float64)
    assert_close(module(x).detach(), torch.from_numpy(recurrence(module, x)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("causal", [True, False])
def test_lower_precision_over_a_long_sequence(dtype: torch.dtype, tolerance: float, causal: bool) -> None:
    """At the initial sizes and steps of models; the outputs are of order 1."""
    module = layer(3, causal, torch.float32, size=64, chunk=128, shortest=0.001, longest=0.1)
    x = torch.randn(1, 2000, 3).to(dtype)
    found = module(x)
    assert found.dtype == dtype
    expected = torch.from_numpy(recurrence(module, x))
    assert_close(found.detach().double(), expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())


@pytest.mark.parametrize("causal", [True, False])
def test_gradients(causal: bool) -> None:
    """By finite differences in float64, of the input and of every parameter."""
    module = layer(2, causal, chunk=3)
    mask = torch.tensor([[True] * 5 + [False] * 2, [False] * 7])[:, None, None]
    names, values = zip(*module.named_parameters(), strict=True)
    x = torch.randn(2, 7, 2, dtype=torch.float64)

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x, mask))

    leaves = [value.detach().clone().requires_grad_() for value in (x, *values)]
    assert torch.autograd.gradcheck(run, leaves)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_leaks_nothing(dtype: torch.dtype) -> None:
    module = layer(dtype=torch.float32)
    x = torch.randn(2, 23, 4).to(dtype).requires_grad_()
    out = module(x)
    for t in (0, 4, 5, 13, 22):
        (gradient,) = torch.autograd.grad(out[:, t].sum(), x, retain_graph=True)
        assert gradient[:, t + 1 :].eq(0).all()
        assert gradient[:, : t + 1].ne(0).any(-1).all()


def test_both_ways_reads_backwards_as_forwards() -> None:
    """With the two directions exchanged, the reversed sequence gives the reversed result."""
    module, other = layer(causal=False), layer(causal=False)
    other.load_state_dict(
        {
            name: value.flip(0) if name in ("log_step", "log_decay", "frequency", "readout") else value
            for name, value in module.state_dict().items()
        }
    )
    x = torch.randn(2, 13, 4, dtype=torch.float64)
    assert_close(other(x.flip(1)), module(x).flip(1))
    assert module(x)[:, 0].sub(module(torch.cat([x[:, :-1], x[:, :1]], 1))[:, 0]).ne(0).all()


@pytest.mark.parametrize("causal", [True, False])
def test_what_stands_in_the_padding_changes_nothing(causal: bool) -> None:
    module = layer(causal=causal)
    lengths = [11, 6, 1, 0]
    keep = torch.arange(11) < torch.tensor(lengths)[:, None]
    x = torch.randn(4, 11, 4, dtype=torch.float64)
    found = module(x, keep[:, None, None])
    assert torch.equal(found, module(x.masked_fill(~keep[..., None], 1e6), keep[:, None, None]))
    for row, length in enumerate(lengths):
        if length:
            assert_close(found[row : row + 1, :length], module(x[row : row + 1, :length]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_to_see_is_zero_and_nothing_is_nan(dtype: torch.dtype) -> None:
    for causal in (True, False):
        module = layer(causal=causal, dtype=torch.float32, size=64)
        torch.nn.init.zeros_(module.output.bias)  # as in all attention: W⁰ of zeros is zero but for its bias
        x = (100 * torch.randn(2, 300, 4)).to(dtype).requires_grad_()
        mask = torch.tensor([True, False])[:, None, None, None].expand(2, 1, 1, 300)
        out = module(x, mask)
        assert out[1].eq(0).all()
        assert out.isfinite().all()
        out.square().sum().backward()
        gradients = [x.grad, *(parameter.grad for parameter in module.parameters())]
        assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
        assert x.grad is not None
        assert x.grad[1].eq(0).all()


@pytest.mark.parametrize("sizes", [[1] * 13, [6, 1, 1, 5], [13], [2, 11]])
def test_it_continues_from_its_state_in_parts_of_any_size(sizes: list[int]) -> None:
    module = layer()
    x = torch.randn(3, 13, 4, dtype=torch.float64)
    cache, parts, numbers = module.new_cache(), [], set()
    assert isinstance(cache, RecurrentCache)
    for part in x.split(sizes, 1):
        parts.append(module(part, None, cache))
        assert cache.state is not None
        numbers.add(cache.state.numel())
    assert cache.length == 13
    assert numbers == {4 * 3 * 2}  # channels, rows, complex states: however many positions
    assert_close(torch.cat(parts, 1), module(x))


def test_rows_move_with_their_states() -> None:
    module = layer()
    x = torch.randn(3, 9, 4, dtype=torch.float64)
    cache = module.new_cache()
    module(x[:, :5], None, cache)
    rows = torch.tensor([2, 0])
    cache.select(rows)
    assert_close(module(x[rows, 5:], None, cache), module(x)[rows, 5:])


def test_time_and_memory_grow_linearly() -> None:
    def products(time: int) -> int:
        x = torch.randn(1, time, 8, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            module(x).sum().backward()
        return counter.get_total_flops()

    def kept(time: int) -> int:
        return saved_bytes(module, lambda: module(torch.randn(1, time, 8, requires_grad=True)))[1]

    module = layer(8, dtype=torch.float32, chunk=32)
    assert products(2048) == pytest.approx(4 * products(512), rel=0.05)
    assert kept(2048) < 4.5 * kept(512)


@pytest.mark.parametrize("start", ["linear", "inverse"])
def test_it_starts_as_the_paper_says(start: str) -> None:
    """S4D-Lin: A_n = -1/2 + iπn; S4D-Inv: A_n = -1/2 + i N/π (N / (2n + 1) - 1)."""
    config = ModelConfig.model_validate(
        {"d_model": 64, "heads": 1, "attention_options": {"state_space": {"size": 16, "start": start}}}
    )
    module = StateSpace(config, causal=True)
    n, size = np.arange(8), 16
    wanted = np.pi * n if start == "linear" else size / np.pi * (size / (2 * n + 1) - 1)
    assert_close(module.frequency.detach()[0, 5], torch.from_numpy(wanted).float())
    assert_close(-module.log_decay.exp(), torch.full((1, 64, 8), -0.5))
    steps = module.log_step.exp()
    assert steps.min() >= 0.001 * (1 - 1e-6)
    assert steps.max() <= 0.1 * (1 + 1e-6)
    assert steps.max() > 10 * steps.min()


SHAPE = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 4, "max_length": 30}


def refusals() -> Iterator[tuple[dict[str, Any], str]]:
    yield (
        {},
        "cross-attention: its state is made of one sequence.*; model.cross_attention can name another kind",
    )
    yield {"attention": "fused", "cross_attention": "state_space"}, "cross-attention: "
    yield {"attention_dropout": 0.1}, "model.attention_dropout=0.1: it has no scores"
    for positions in ("rotary", "alibi", "t5", "relative"):
        yield {"positions": positions}, f"model.positions={positions}: it has no "


@pytest.mark.parametrize(("changes", "message"), list(refusals()), ids=str)
def test_what_it_cannot_do_fails_when_the_model_is_built(changes: dict[str, Any], message: str) -> None:
    if changes and "cross_attention" not in changes:
        changes = {"cross_attention": "fused", **changes}
    config = ModelConfig.model_validate({**SHAPE, "attention": "state_space", **changes})
    with pytest.raises(ConfigError, match=f"model.attention=state_space can't be combined with {message}"):
        build_model(config, 17, 17)


def test_it_is_no_function_of_queries_keys_and_values() -> None:
    x = torch.zeros(1, 1, 2, 3)
    assert isinstance(registered("state_space"), Layer)
    for ask in (lambda: attend(x, x, x, kind="state_space"), lambda: attention_kind("state_space")):
        with pytest.raises(ConfigError, match="expected a kind with queries, keys and values, found state_space"):
            ask()


def test_masks_over_pairs_and_steps_through_an_encoder_are_refused() -> None:
    x = torch.zeros(1, 5, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"expected a mask over keys .* for state_space attention, found one over"):
        layer()(x, torch.ones(1, 1, 5, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected a causal state space to decode step by step"):
        layer(causal=False).new_cache()


def test_options_are_checked() -> None:
    for options, message in (
        ({"shortest": 0.2}, "shortest must not exceed longest, found 0.2 and 0.1"),
        ({"size": 5}, "multiple of 2"),
    ):
        with pytest.raises(ValueError, match=message):
            ModelConfig.model_validate({"attention_options": {"state_space": options}})


def test_records_hold_the_attention_around_it_only() -> None:
    config = ModelConfig.model_validate({**SHAPE, "attention": "state_space", "cross_attention": "fused"})
    model = build_model(config, 17, 17).eval()
    source = torch.randint(4, 17, (2, 7))
    with recording(model) as records:
        model(source, torch.ones_like(source, dtype=torch.bool), source)
    assert list(records.weights) == ["decoder.0.cross_attention"]


def test_a_decoder_only_model_reads_on_in_a_state_of_fixed_size() -> None:
    shape = {"decoder_layers": 2, "d_model": 16, "d_ff": 16, "heads": 4, "positions": "none"}
    config = ModelConfig.model_validate(
        {"architecture": "decoder_only", "attention": "state_space", "max_length": 8, **shape}
    )
    torch.manual_seed(0)
    model = DecoderOnly(config, 17).eval()
    assert not model.keeps_all
    assert not model.bounded
    tokens = torch.randint(4, 17, (2, 20))
    with torch.no_grad():
        expected = model.project(model(tokens)).log_softmax(-1)
        found, state = model.step(tokens[:, :12], model.start())  # a prompt at once, then token by token
        for t in range(12, 20):
            assert_close(found, expected[:, t - 1], rtol=1e-4, atol=1e-5)
            found, state = model.step(tokens[:, t : t + 1], state)


def test_a_prefix_seen_in_both_directions_is_refused() -> None:
    config = ModelConfig.model_validate(
        {"architecture": "decoder_only", "attention": "state_space", "positions": "none", "prefix": True}
    )
    with pytest.raises(ConfigError, match=r"state_space can't be combined with model.prefix=true: its state is one"):
        DecoderOnly(config, 17)

"""Guarantees of the decoder-only model: causality, exact caching, and bidirectional attention over a prefix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.build import build_decoder_only, build_encoder_only
from headwise.models.decoder_only import DecoderOnly
from headwise.models.output_heads import SpanHead, pool
from headwise.nn.attention import attention_kinds
from headwise.nn.cache import KeyValueCache
from headwise.nn.positions import position_encodings

SIZE = 40
SHAPE = {"decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 4, "max_length": 64, "dropout": 0.0}
OPTIONS = {
    "window": {"size": 5, "globals": 1},
    "block_sparse": {"local": 3, "stride": 4},
    "linear": {"chunk": 4},
}
kinds = pytest.mark.parametrize("kind", [kind.name for kind in attention_kinds()])


def small(seed: int = 0, **changes: Any) -> DecoderOnly:
    torch.manual_seed(seed)
    config = ModelConfig.model_validate({**SHAPE, "attention_options": OPTIONS, **changes})
    return build_decoder_only(config, SIZE).eval()


def ids(batch: int, time: int, seed: int = 0) -> Tensor:
    return torch.randint(4, SIZE, (batch, time), generator=torch.Generator().manual_seed(seed))


def works(kind: str, positions: str) -> bool:
    try:
        small(attention=kind, positions=positions)
    except ConfigError:
        return False
    return True


PAIRS = [(k.name, p.name) for k in attention_kinds() for p in position_encodings() if works(k.name, p.name)]


@kinds
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_future_leaks_nothing(kind: str, norm: str) -> None:
    """The gradient of output t with respect to inputs after t is exactly 0, and with respect to t it isn't."""
    time = 9
    model = small(attention=kind, norm=norm, share_embeddings="none")
    tokens = torch.arange(4, 4 + time)[None]  # each of its own, so rows of the embedding are positions
    for t in range(time):
        model.zero_grad()
        model(tokens)[0, t].square().sum().backward()
        assert model.embedding.weight.grad is not None
        gradients = model.embedding.weight.grad[tokens[0]].abs().sum(1)
        assert torch.equal(gradients[t + 1 :], torch.zeros(time - t - 1))
        assert gradients[t] > 0


@pytest.mark.parametrize(("kind", "positions"), PAIRS)
@torch.no_grad()
def test_reading_on_equals_reading_all(kind: str, positions: str) -> None:
    """For steps of any size, and with fewer key/value heads than query heads."""
    model = small(attention=kind, positions=positions, key_value_heads=2, norm="pre")
    tokens = ids(3, 23)
    expected = model.project(model(tokens)).log_softmax(-1)
    state, end = model.start(), 0
    for new in (6, 1, 1, 4, 1, 10):
        found, state = model.step(tokens[:, end : end + new], state)
        end += new
        assert state.position == end
        assert_close(found, expected[:, end - 1], rtol=1e-4, atol=1e-4)


@settings(max_examples=6)
@given(prefix=st.lists(st.integers(0, 11), min_size=3, max_size=3), seed=st.integers(0, 99))
@pytest.mark.parametrize("positions", ["sinusoidal", "t5", "rotary"])
def test_a_prefix_is_seen_in_both_directions_and_nothing_else_is(positions: str, prefix: list[int], seed: int) -> None:
    model = small(prefix=True, positions=positions)
    tokens, lengths = ids(3, 12, seed), torch.tensor(prefix)
    hidden = model(tokens, lengths)
    for row, length in enumerate(prefix):
        for changed in range(12):
            other = tokens.clone()
            other[row, changed] = 4 + (other[row, changed] - 3) % (SIZE - 4)
            same = (model(other, lengths)[row] - hidden[row]).abs().sum(1) == 0
            sees = torch.tensor([changed <= t or changed < length for t in range(12)])
            assert torch.equal(same, ~sees), (row, changed)
        if row == 0:
            break  # rows are alike; one shows it


@torch.no_grad()
def test_a_prefix_read_at_once_may_be_read_on_from() -> None:
    model = small(prefix=True, positions="t5")
    tokens, lengths = ids(2, 15), torch.tensor([6, 6])
    expected = model.project(model(tokens, lengths)).log_softmax(-1)
    found, state = model.step(tokens[:, :6], model.start(), lengths)
    assert_close(found, expected[:, 5], rtol=1e-4, atol=1e-4)
    for t in range(6, 15):
        found, state = model.step(tokens[:, t : t + 1], state)
        assert_close(found, expected[:, t], rtol=1e-4, atol=1e-4)


def test_a_prefix_of_none_is_a_causal_model() -> None:
    causal, with_prefix = small(), small(prefix=True)
    tokens = ids(2, 9)
    assert_close(with_prefix(tokens, torch.tensor([0, 0])), causal(tokens))
    with pytest.raises(ValueError, match=r"without model\.prefix"):
        causal(tokens, torch.tensor([1, 1]))


@torch.no_grad()
def test_rows_of_the_state_may_be_chosen() -> None:
    model = small()
    tokens = ids(3, 8)
    _, state = model.step(tokens, model.start())
    rows = torch.tensor([2, 0])
    chosen, _ = model.step(tokens[rows, :1], state.select(rows))
    alone, _ = model.step(tokens[rows, :1], model.step(tokens[rows], model.start())[1])
    assert_close(chosen, alone, rtol=1e-5, atol=1e-5)


def test_a_recurrent_kind_keeps_as_much_after_many_tokens_as_after_one() -> None:
    model = small(attention="linear", positions="none")
    assert not model.keeps_all
    assert not model.bounded
    assert small().keeps_all
    state, sizes = model.start(), []
    for _ in range(200):
        _, state = model.step(ids(1, 1), state)
        sizes.append(sum(t.numel() for c in state.caches for t in vars(c).values() if isinstance(t, Tensor)))
        assert not any(isinstance(cache, KeyValueCache) for cache in state.caches)
    assert sizes[0] == sizes[-1] > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"encoder_layers": 2},
            "model.encoder_layers: expected nothing here, as a decoder-only model has no use",
        ),
        ({"segments": 2}, "model.segments: expected nothing here"),
        ({"architecture": "recurrent"}, "model.architecture: expected transformer for a decoder-only model"),
        (
            {"attention": "linear", "prefix": True},
            "model.attention=linear can't be combined with model.prefix=true",
        ),
        ({"attention": "quick"}, "model.attention: expected one of"),
    ],
)
def test_what_means_nothing_or_can_not_work_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        small(**changes)


# The encoder-only model


def test_padding_is_nothing_to_an_encoder() -> None:
    config = ModelConfig.model_validate({**SHAPE, "decoder_layers": 6, "encoder_layers": 2, "segments": 3})
    model = build_encoder_only(config, SIZE).eval()
    tokens, segments = ids(2, 9), ids(2, 9) % 3
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    hidden = model(tokens, mask, segments)
    assert_close(model(tokens[1:, :4], None, segments[1:, :4]), hidden[1:, :4])
    assert_close(pool(hidden, mask, "mean")[1], hidden[1, :4].mean(0))
    assert_close(pool(hidden, None, "mean"), hidden.mean(1))
    start, end = SpanHead(config)(hidden, mask)
    assert start.shape == end.shape == (2, 9)
    assert torch.equal(start[1].softmax(-1)[4:], torch.zeros(5))


def test_an_encoder_sees_both_ways() -> None:
    model = build_encoder_only(ModelConfig.model_validate({**SHAPE, "decoder_layers": 6, "encoder_layers": 1}), SIZE)
    tokens = ids(1, 6)
    other = tokens.clone()
    other[0, 5] = 4 + (other[0, 5] - 3) % (SIZE - 4)
    assert ((model.eval()(tokens) - model(other)).abs().sum(-1) > 0).all()

"""Whole models against the NumPy oracle: all attention kinds and position encodings, teacher-forced and stepwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.config import ModelConfig
from headwise.models.transformer import Transformer
from headwise.nn.attention import all_registered, registered
from headwise.nn.attention_positions import t5_bucket
from headwise.nn.positions import attention_positions, position_encodings
from oracle import TABLES, Oracle, oracle_of
from oracle import t5_bucket as oracle_bucket
from seq2seq import VOCABULARY, small_model

OPTIONS = {
    "attention_options": {
        "window": {"size": 3, "globals": 1},
        "block_sparse": {"local": 2, "stride": 3},
        "linear": {"chunk": 3},
        "memory_efficient": {"chunk": 4},
        "state_space": {"size": 6, "chunk": 4},
    },
    "position_options": {
        "relative": {"reach": 3},
        "t5": {"buckets": 8, "reach": 7},
        "rotary": {"base": 100.0},
    },
}
VARIANTS: dict[str, dict[str, Any]] = {
    "relative-values": {"positions": "relative", "relative": {"reach": 3, "values": True, "per_head": True}},
    "rotary-halves": {"positions": "rotary", "rotary": {"base": 100.0, "pairs": "halves"}},
}
POSITIONS = [encoding.name for encoding in position_encodings()] + list(VARIANTS)
KINDS = [kind.name for kind in all_registered()]


def changes(kind: str, positions: str) -> dict[str, Any]:
    """Return the configuration of a kind and positions; `fused` is the cross-attention where the kind can't be."""
    variant = dict(VARIANTS.get(positions, {"positions": positions}))
    name = variant.pop("positions")
    return {
        "attention": kind,
        "cross_attention": "fused" if "cross" in registered(kind).lacks else None,
        "positions": name,
        "attention_options": OPTIONS["attention_options"],
        "position_options": {**OPTIONS["position_options"], **variant},
    }


def possible_pairs() -> Iterator[tuple[str, str]]:
    for kind in all_registered():
        for positions in POSITIONS:
            config = ModelConfig.model_validate(changes(kind.name, positions))
            (inside,) = attention_positions(config, 1, causal=True)
            if inside is None or not inside.needs & set(kind.lacks):
                yield kind.name, positions


def problem(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return source ids, mask and target ids: sources of 9, 5, 1 and 0 tokens, the first with a gap in its mask."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(9) < torch.tensor([9, 5, 1, 0])[:, None]
    mask[0, 4] = False
    source = torch.randint(4, VOCABULARY, mask.shape, generator=generator)
    return source, mask, torch.randint(4, VOCABULARY, (4, 11), generator=generator)


def expected(oracle: Oracle, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Return the oracle's log-probabilities, sentence by sentence, without the padding at the end."""
    rows = []
    for ids, seen, out in zip(source, mask, target, strict=True):
        length = int(seen.nonzero().max()) + 1 if seen.any() else 0
        rows.append(oracle.log_probabilities(ids[:length].tolist(), out.tolist(), seen[:length].tolist()))
    return torch.from_numpy(np.stack(rows))


@pytest.mark.parametrize(("kind", "positions"), list(possible_pairs()))
def test_a_model_is_the_oracle(kind: str, positions: str) -> None:
    """Post-norm with full heads in float64 and pre-norm with grouped heads in float32, both also stepwise."""
    for shape, dtype, tolerance in (
        ({"norm": "post", "activation": "relu"}, torch.float64, 1e-10),
        ({"norm": "pre", "activation": "gelu", "key_value_heads": 2}, torch.float32, 1e-5),
    ):
        model = small_model(**changes(kind, positions), **shape).to(dtype)
        model.compute_dtype = dtype
        if positions in TABLES:
            model.positions.table = exact_table(model)
        source, mask, target = problem()
        wanted = expected(oracle_of(model, model.config), source, mask, target)
        with torch.no_grad():
            forced = model.project(model(source, mask, target)).log_softmax(-1)
            state = model.start(model.encode(source, mask))
            steps = []
            for t in range(target.size(1)):
                found, state = model.step(target[:, t], state)
                steps.append(found)
        torch.testing.assert_close(forced.double(), wanted, rtol=tolerance, atol=tolerance)
        # a step always returns float32
        torch.testing.assert_close(torch.stack(steps, 1).double(), wanted, rtol=1e-5, atol=1e-5)


def exact_table(model: Transformer) -> Tensor:
    """Return the sinusoids in float64; a float64 model has the float32 table, with errors up to 3e-8."""
    table = TABLES[model.config.positions](model.config.max_length, model.config.d_model)
    return torch.from_numpy(table).to(model.compute_dtype)


@pytest.mark.parametrize(
    "shape",
    [
        {"share_embeddings": "none"},
        {"share_embeddings": "target", "activation": "silu"},
        {"attention_bias": False, "logit_bias": True},
        {"key_value_heads": 1, "d_k": 5, "d_v": 7},
        {"heads": 6, "positions": "alibi"},
        {"heads": 1, "positions": "alibi"},
        {"normalization": "rms", "norm": "pre", "norm_epsilon": 0.1, "scale_embeddings": False},
        {"gated": True, "feed_forward_bias": False, "activation": "gelu_tanh", "norm_epsilon": 0.1},
        {"norm": "pre", "final_norm": False},
    ],
    ids=str,
)
def test_other_shapes_are_the_oracles(shape: dict[str, Any]) -> None:
    model = small_model(**shape)
    source, mask, target = problem(1)
    with torch.no_grad():
        found = model.project(model(source, mask, target)).log_softmax(-1)
    torch.testing.assert_close(
        found.double(), expected(oracle_of(model, model.config), source, mask, target), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(0, 14), min_size=1, max_size=3),
    target=st.integers(1, 14),
    share=st.sampled_from([0.5, 0.9, 1.0]),
)
@settings(deadline=None, max_examples=8)
def test_random_lengths_and_masks(kind: str, seed: int, lengths: list[int], target: int, share: float) -> None:
    model = small_model(**changes(kind, "learned"), encoder_layers=1, decoder_layers=1)
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths) + 1) < torch.tensor(lengths)[:, None]
    mask &= torch.rand(mask.shape, generator=generator) < share
    source = torch.randint(4, VOCABULARY, mask.shape, generator=generator)
    out = torch.randint(4, VOCABULARY, (len(lengths), target), generator=generator)
    with torch.no_grad():
        found = model.project(model(source, mask, out)).log_softmax(-1)
    torch.testing.assert_close(
        found.double(), expected(oracle_of(model, model.config), source, mask, out), rtol=1e-5, atol=1e-5
    )


@given(half=st.integers(1, 16), reach=st.integers(1, 300), causal=st.booleans())
@settings(deadline=None, max_examples=50)
def test_t5_buckets_in_integers(half: int, reach: int, causal: bool) -> None:
    """Buckets agree, except at a distance that starts a bucket, which float32 may round to the bucket below."""
    buckets, reach = 4 * half, 2 * half + reach
    single = buckets // 2 if causal else buckets // 4
    for distance in range(-2 * reach, 2 * reach + 1, max(1, reach // 40)):
        wanted = oracle_bucket(distance, causal, buckets, reach)
        found = int(t5_bucket(torch.tensor(distance), causal=causal, buckets=buckets, reach=reach))
        length = abs(distance)
        begins = any(length**single == single ** (single - m) * reach**m for m in range(1, single + 1))
        assert found == wanted or (begins and found == wanted - 1)

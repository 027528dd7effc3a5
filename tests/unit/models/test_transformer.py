"""Guarantees of the Transformer: causality, no effect of padding, and decoding by steps equals teacher forcing."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.transformer import Transformer
from headwise.nn.layers import LayerNorm
from headwise.nn.recording import recording

VOCABULARY = 23

norms = pytest.mark.parametrize("norm", ["post", "pre"])
kinds = pytest.mark.parametrize("kind", ["reference", "fused"])


def small(seed: int = 0, sizes: tuple[int, int] = (VOCABULARY, VOCABULARY), **changes: Any) -> Transformer:
    shape = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": 16,
        "d_ff": 24,
        "heads": 2,
        "max_length": 40,
    }
    torch.manual_seed(seed)
    return Transformer(ModelConfig.model_validate({**shape, **changes}), *sizes).eval()


def ids(batch: int, time: int, seed: int = 0) -> Tensor:
    return torch.randint(4, VOCABULARY, (batch, time), generator=torch.Generator().manual_seed(seed))


def all_real(source: Tensor) -> Tensor:
    return torch.ones_like(source, dtype=torch.bool)


@norms
@kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_causal_mask_leaks_nothing(norm: str, kind: str, dtype: torch.dtype) -> None:
    """The gradient of output t with respect to inputs after t is exactly 0, and up to t it is not.

    Every position holds a token of its own, so the embedding's rows are the positions' gradients.
    """
    batch, time = 2, 6
    model = small(sizes=(VOCABULARY, batch * time), norm=norm, attention=kind, share_embeddings="none")
    model.compute_dtype = dtype
    source = ids(batch, 5)
    target = torch.arange(batch * time).view(batch, time)
    hidden = model(source, all_real(source), target)
    weights = torch.randn(hidden.size(-1)).to(dtype)
    for t in range(time):
        model.zero_grad()
        (hidden[:, t] @ weights).sum().backward(retain_graph=True)
        gradient = model.target_embedding.weight.grad
        assert gradient is not None
        gradient = gradient.view(batch, time, -1)
        assert gradient[:, t + 1 :].eq(0).all()
        assert gradient[:, : t + 1].abs().sum(-1).gt(0).all()


@norms
def test_later_tokens_change_no_bit_of_earlier_outputs(norm: str) -> None:
    model = small(norm=norm)
    source, target = ids(2, 5), ids(2, 8, seed=1)
    other = target.clone()
    other[:, 5:] = ids(2, 3, seed=2)
    first, second = (model(source, all_real(source), y) for y in (target, other))
    assert torch.equal(first[:, :5], second[:, :5])
    assert not torch.equal(first[:, 5:], second[:, 5:])


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=5),
    more=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    norm=st.sampled_from(["post", "pre"]),
    kind=st.sampled_from(["reference", "fused"]),
)
def test_padding_and_companions_change_no_result(
    lengths: list[tuple[int, int]], more: tuple[int, int], norm: str, kind: str
) -> None:
    model = small(norm=norm, attention=kind)
    batch = len(lengths)
    source = torch.zeros(batch, max(s for s, _ in lengths) + more[0], dtype=torch.long)
    target = torch.zeros(batch, max(t for _, t in lengths) + more[1], dtype=torch.long)
    mask = torch.zeros_like(source, dtype=torch.bool)
    for row, (s, t) in enumerate(lengths):
        source[row, :s], target[row, :t], mask[row, :s] = ids(1, s, row), ids(1, t, 100 + row), True
    with torch.no_grad():
        together = model(source, mask, target)
        memory = model.encode(source, mask)
        for row, (s, t) in enumerate(lengths):
            alone_source, alone_target = source[row : row + 1, :s], target[row : row + 1, :t]
            alone = model(alone_source, all_real(alone_source), alone_target)
            assert_close(together[row, :t], alone[0], rtol=1e-5, atol=1e-5)
            states = model.encode(alone_source, all_real(alone_source)).states
            assert_close(memory.states[row, :s], states[0], rtol=1e-5, atol=1e-5)


@norms
@kinds
def test_what_stands_in_the_padding_changes_no_bit(norm: str, kind: str) -> None:
    model = small(norm=norm, attention=kind)
    source, target = ids(3, 6), ids(3, 4)
    mask = torch.arange(6) < torch.tensor([[6], [2], [1]])
    other = torch.where(mask, source, ids(3, 6, seed=9))
    assert not torch.equal(source, other)
    assert torch.equal(model(source, mask, target), model(other, mask, target))


@norms
def test_the_order_of_a_batch_is_the_order_of_its_results(norm: str) -> None:
    model = small(norm=norm)
    source, target, order = ids(4, 6), ids(4, 5), torch.tensor([2, 0, 3, 1])
    mask = torch.arange(6) < torch.tensor([[6], [2], [1], [4]])
    assert_close(
        model(source, mask, target)[order],
        model(source[order], mask[order], target[order]),
        rtol=1e-5,
        atol=1e-5,
    )


def log_probabilities(model: Transformer, source: Tensor, mask: Tensor, histories: Tensor) -> Tensor:
    """Return log-probabilities of the token after each history, by teacher forcing without a cache; a row each."""
    return model.project(model(source, mask, histories)[:, -1]).log_softmax(-1)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    beams=st.integers(1, 3),
    options=st.fixed_dictionaries(
        {
            "norm": st.sampled_from(["post", "pre"]),
            "positions": st.sampled_from(["sinusoidal", "learned", "none"]),
            "attention": st.sampled_from(["reference", "fused"]),
            "attention_bias": st.booleans(),
        }
    ),
)
def test_steps_with_reordered_and_finished_beams_equal_teacher_forcing(
    seed: int, beams: int, options: dict[str, Any]
) -> None:
    choose = random.Random(seed)
    model = small(**options)
    source = ids(4, 6, seed)
    mask = torch.arange(6) < torch.tensor([[6], [3], [1], [5]])
    sentences = list(range(4))
    histories = [[] for _ in range(4 * beams)]  # tokens fed to each row
    with torch.no_grad():
        state = model.start(model.encode(source, mask), beams)
        for _ in range(7):
            tokens = [choose.randrange(4, VOCABULARY) for _ in histories]
            histories = [[*history, token] for history, token in zip(histories, tokens, strict=True)]
            log_probs, state = model.step(torch.tensor(tokens), state)
            rows = torch.tensor(sentences).repeat_interleave(beams)
            expected = log_probabilities(model, source[rows], mask[rows], torch.tensor(histories))
            assert log_probs.dtype == torch.float32
            assert_close(log_probs, expected, rtol=1e-5, atol=1e-5)
            if choose.random() < 0.3 and len(sentences) > 1:
                kept = choose.sample(range(len(sentences)), len(sentences) - 1)  # in any order
                state = state.keep(torch.tensor(kept))
                sentences = [sentences[i] for i in kept]
                histories = [histories[i * beams + beam] for i in kept for beam in range(beams)]
            if choose.random() < 0.7:
                order = [i // beams * beams + choose.randrange(beams) for i in range(len(histories))]
                state = state.reorder(torch.tensor(order))
                histories = [histories[i] for i in order]


def test_a_sentence_can_leave_before_the_first_step() -> None:
    model = small()
    source = ids(3, 4)
    with torch.no_grad():
        state = model.start(model.encode(source, all_real(source)), beams=2).keep(torch.tensor([2, 0]))
        found, _ = model.step(torch.tensor([5, 6, 7, 8]), state)
        rows = torch.tensor([2, 2, 0, 0])
        expected = log_probabilities(
            model, source[rows], all_real(source[rows]), torch.tensor([[5], [6], [7], [8]])
        )
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_log_probabilities_are_normalized_float32_in_any_arithmetic() -> None:
    model = small()
    source = ids(2, 4)
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        model.compute_dtype = dtype
        memory = model.encode(source, all_real(source))
        assert memory.states.dtype == dtype
        found[dtype], _ = model.step(torch.tensor([5, 6]), model.start(memory))
        assert found[dtype].dtype == torch.float32
        assert_close(found[dtype].exp().sum(-1), torch.ones(2))
    assert_close(found[torch.bfloat16], found[torch.float32], rtol=0, atol=0.1)


def test_too_long_a_sequence_is_refused() -> None:
    model = small(max_length=4)
    source = ids(1, 5)
    with pytest.raises(ValueError, match=r"expected at most 4 positions \(model.max_length\), found 5"):
        model.encode(source, all_real(source))
    state = model.start(model.encode(source[:, :4], all_real(source[:, :4])))
    for _ in range(4):
        _, state = model.step(torch.tensor([5]), state)
    with pytest.raises(ValueError, match="expected at most 4 positions"):
        model.step(torch.tensor([5]), state)


def test_shared_embeddings_are_one_storage() -> None:
    everything = small(share_embeddings="all")
    assert everything.source_embedding.weight is everything.target_embedding.weight
    assert everything.output_weight is everything.target_embedding.weight
    target = small(share_embeddings="target", sizes=(19, 23))
    assert target.output_weight is target.target_embedding.weight
    assert target.source_embedding.weight.shape == (19, 16)
    nothing = small(share_embeddings="none", sizes=(19, 23))
    weights = {
        id(w)
        for w in (nothing.source_embedding.weight, nothing.target_embedding.weight, nothing.output_weight)
    }
    assert len(weights) == 3


def test_a_shared_embedding_learns_from_all_its_uses() -> None:
    """The gradient of a shared matrix is the sum of the gradients of three unshared copies."""
    shared, apart = small(share_embeddings="all"), small(share_embeddings="none")
    parts = (apart.source_embedding.weight, apart.target_embedding.weight, apart.output_weight)
    with torch.no_grad():
        weights = dict(shared.named_parameters())
        for name, parameter in apart.named_parameters():
            parameter.copy_(weights.get(name, shared.source_embedding.weight))
    source, target = ids(3, 5), ids(3, 4, seed=1)
    for model in (shared, apart):
        logits = model.project(model(source, all_real(source), target))
        nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
    gradients = [part.grad for part in parts if part.grad is not None]
    assert len(gradients) == 3
    assert shared.source_embedding.weight.grad is not None
    assert_close(shared.source_embedding.weight.grad, sum(gradients), rtol=1e-5, atol=1e-6)


def test_the_start_is_random_with_the_variance_of_the_paper_s_scaling() -> None:
    """Embeddings of variance 1/d_model, times √d_model, are of the size of the positions added to them."""
    model = Transformer(ModelConfig(encoder_layers=1, decoder_layers=1, d_model=64, heads=4), 1000, 1000)
    assert model.source_embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    same, other = small(seed=1).state_dict(), small(seed=2).state_dict()
    assert all(torch.equal(w, same[name]) for name, w in small(seed=1).state_dict().items())
    assert not torch.equal(same["source_embedding.weight"], other["source_embedding.weight"])


def test_only_pre_norm_ends_its_stacks_with_a_norm() -> None:
    """Post-norm layers end with a norm (section 3.1); pre-norm stacks need one for a normalized output."""
    post, pre = small(norm="post"), small(norm="pre")
    for end in ("encoder_norm", "decoder_norm"):
        assert isinstance(getattr(pre, end), LayerNorm)
        assert not list(getattr(post, end).parameters())
    source = ids(2, 5)
    for model in (post, pre):
        states = model.encode(source, all_real(source)).states
        assert_close(states.mean(-1), torch.zeros(2, 5), rtol=0, atol=1e-5)
        assert_close(states.var(-1, unbiased=False), torch.ones(2, 5), rtol=0, atol=1e-3)


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_acts_in_training_only(rate: str) -> None:
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = small(**{**rates, rate: 0.5})
    source, target = ids(2, 5), ids(2, 4)
    assert torch.equal(model(source, all_real(source), target), model(source, all_real(source), target))
    model.train()
    assert not torch.equal(model(source, all_real(source), target), model(source, all_real(source), target))
    still = small(**rates).train()
    assert torch.equal(
        still(source, all_real(source), target), still.eval()(source, all_real(source), target)
    )


def test_every_attention_can_be_recorded_by_name() -> None:
    model = small(encoder_layers=1)
    source, target = ids(2, 5), ids(2, 4)
    with recording(model) as records:
        model(source, all_real(source), target)
    shapes = {name: [tuple(w.shape) for w in entries] for name, entries in records.weights.items()}
    assert shapes == {
        "encoder.0.self_attention": [(2, 2, 5, 5)],
        "decoder.0.self_attention": [(2, 2, 4, 4)],
        "decoder.0.cross_attention": [(2, 2, 4, 5)],
        "decoder.1.self_attention": [(2, 2, 4, 4)],
        "decoder.1.cross_attention": [(2, 2, 4, 5)],
    }


def test_an_unknown_attention_kind_fails_when_the_model_is_built() -> None:
    with pytest.raises(ConfigError, match=r"model\.attention: expected one of .*fused.*, found 'fussed'"):
        small(attention="fussed")

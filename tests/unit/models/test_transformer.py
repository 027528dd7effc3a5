"""Guarantees of the Transformer beside those of every architecture (test_architectures.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
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


def test_a_sentence_can_leave_before_the_first_step() -> None:
    model = small()
    source = ids(3, 4)
    with torch.no_grad():
        state = model.start(model.encode(source, all_real(source)), beams=2).keep(torch.tensor([2, 0]))
        found, _ = model.step(torch.tensor([5, 6, 7, 8]), state)
        rows = torch.tensor([2, 2, 0, 0])
        hidden = model(source[rows], all_real(source[rows]), torch.tensor([[5], [6], [7], [8]]))
    assert_close(found, model.project(hidden[:, -1]).log_softmax(-1), rtol=1e-5, atol=1e-5)


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
    assert torch.equal(still(source, all_real(source), target), still.eval()(source, all_real(source), target))


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

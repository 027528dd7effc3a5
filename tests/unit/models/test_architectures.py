"""Guarantees of every architecture: causality, no effect of padding, and decoding by steps equals teacher forcing."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close

from decoding_models import SYMBOLS, decode, greedy, sentences, tiny_transformer
from headwise.config import ModelConfig
from headwise.decoding.engine import PyTorchEngine
from headwise.decoding.ensemble import Ensemble
from headwise.engine.options import SearchOptions
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_weights
from headwise.nn.multihead import Probed
from headwise.nn.recording import recording

VOCABULARY = 23

LUONG = {"cell": "lstm", "attention": "multiplicative", "query": "current", "readout": "tanh"}
VARIANTS: dict[str, dict[str, Any]] = {
    "bahdanau": {"architecture": "recurrent"},
    "luong": {"architecture": "recurrent", "recurrent": {**LUONG, "input_feeding": True}},
    "luong-without-feeding": {"architecture": "recurrent", "recurrent": LUONG},
    "gnmt": {
        "architecture": "recurrent",
        "encoder_layers": 4,
        "decoder_layers": 4,
        "recurrent": {
            "cell": "lstm",
            "size": 12,
            "reading": "both-first",
            "residual": True,
            "readout": "state",
        },
    },
    "sutskever": {
        "architecture": "recurrent",
        "recurrent": {"cell": "lstm", "reading": "backward", "attention": "none", "readout": "state"},
    },
    "cho": {
        "architecture": "recurrent",
        "recurrent": {"reading": "forward", "attention": "none", "size": 20},
    },
    "additive-fed-residual": {
        "architecture": "recurrent",
        "encoder_layers": 3,
        "decoder_layers": 3,
        "recurrent": {"query": "current", "residual": True, "input_feeding": True, "size": 12},
    },
    "convs2s": {"architecture": "convolutional"},
    "convs2s-wide": {
        "architecture": "convolutional",
        "decoder_layers": 3,
        "convolutional": {"channels": 20, "kernel": 5},
    },
}
# The Transformer has tests of its own, too.
OTHERS = list(VARIANTS)
VARIANTS |= {
    "transformer": {"d_ff": 24},
    "transformer-reference": {
        "d_ff": 24,
        "attention": "reference",
        "attention_bias": True,
        "positions": "learned",
    },
    "transformer-pre": {"d_ff": 24, "norm": "pre", "attention_bias": True},
    "transformer-pre-reference": {
        "d_ff": 24,
        "norm": "pre",
        "attention": "reference",
        "positions": "none",
    },
}
WITH_ATTENTION = [name for name in OTHERS if name not in ("sutskever", "cho")]

every = pytest.mark.parametrize("variant", VARIANTS)
other = pytest.mark.parametrize("variant", OTHERS)
attending = pytest.mark.parametrize("variant", WITH_ATTENTION)


def small(variant: str, seed: int = 0, sizes: tuple[int, int] = (VOCABULARY, VOCABULARY), **changes: Any) -> Seq2Seq:
    """Return a small model with random weights, large enough that every part has an effect."""
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "heads": 2, "max_length": 64}
    torch.manual_seed(seed)
    model = build_model(ModelConfig.model_validate({**shape, **VARIANTS[variant], **changes}), *sizes).eval()
    scale = 1 if "transformer" in variant else 8
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter *= scale if "embedding" in name or "positions" in name else 1
            if "bias" in name:
                parameter.normal_(std=0.3)
    return model


def ids(batch: int, time: int, seed: int = 0) -> Tensor:
    return torch.randint(4, VOCABULARY, (batch, time), generator=torch.Generator().manual_seed(seed))


def rounding(variant: str) -> float:
    """Return the relative difference that sums in another order make; logits of the others are larger."""
    return 1e-5 if "transformer" in variant else 1e-4


def all_real(source: Tensor) -> Tensor:
    return torch.ones_like(source, dtype=torch.bool)


@every
def test_the_future_leaks_into_no_output(variant: str) -> None:
    """The gradient of output t with respect to inputs after t is exactly 0, and with respect to input t it is not."""
    batch, time = 2, 6
    model = small(variant, sizes=(VOCABULARY, batch * time), share_embeddings="none")
    source = ids(batch, 5)
    hidden = model(source, all_real(source), torch.arange(batch * time).view(batch, time))
    weights = torch.randn(hidden.size(-1))
    embedding = model.get_parameter("target_embedding.weight")
    for t in range(time):
        (gradient,) = torch.autograd.grad((hidden[:, t] @ weights).sum(), embedding, retain_graph=True)
        gradient = gradient.view(batch, time, -1)
        assert gradient[:, t + 1 :].eq(0).all()
        assert gradient[:, t].abs().sum(-1).gt(0).all()


@every
def test_every_source_token_reaches_every_output(variant: str) -> None:
    batch, time = 2, 5
    model = small(variant, sizes=(batch * time, VOCABULARY), share_embeddings="none")
    source, target = torch.arange(batch * time).view(batch, time), ids(batch, 3)
    hidden = model(source, all_real(source), target)
    embedding = model.get_parameter("source_embedding.weight")
    for t in range(3):
        total = (hidden[:, t] @ torch.randn(hidden.size(-1))).sum()
        (gradient,) = torch.autograd.grad(total, embedding, retain_graph=True)
        assert gradient.abs().sum(-1).gt(0).all()


@settings(deadline=None, max_examples=50)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=5),
    more=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    variant=st.sampled_from(list(VARIANTS)),
)
def test_padding_and_companions_change_no_result(
    lengths: list[tuple[int, int]], more: tuple[int, int], variant: str
) -> None:
    model = small(variant)
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
            alone_source = source[row : row + 1, :s]
            alone = model(alone_source, all_real(alone_source), target[row : row + 1, :t])
            assert_close(together[row, :t], alone[0], rtol=rounding(variant), atol=1e-5)
            states = model.encode(alone_source, all_real(alone_source)).states
            assert_close(memory.states[row, :s], states[0], rtol=rounding(variant), atol=1e-5)


@every
def test_what_stands_in_the_padding_changes_no_bit(variant: str) -> None:
    model = small(variant)
    target = ids(3, 4)
    mask = torch.arange(6) < torch.tensor([[6], [2], [1]])
    source = ids(3, 6)
    other = torch.where(mask, source, ids(3, 6, seed=9))
    assert not torch.equal(source, other)
    assert torch.equal(model(source, mask, target), model(other, mask, target))


def log_probabilities(model: Seq2Seq, source: Tensor, mask: Tensor, histories: Tensor) -> Tensor:
    """Return log-probabilities of the token after each history, by teacher forcing; one row per history."""
    return model.project(model(source, mask, histories)[:, -1]).log_softmax(-1)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), beams=st.integers(1, 3), variant=st.sampled_from(list(VARIANTS)))
def test_steps_with_reordered_and_finished_beams_equal_teacher_forcing(seed: int, beams: int, variant: str) -> None:
    choose = random.Random(seed)
    model = small(variant)
    source = ids(4, 6, seed)
    mask = torch.arange(6) < torch.tensor([[6], [3], [1], [5]])
    going = list(range(4))
    histories = [[] for _ in range(4 * beams)]  # tokens fed to each row
    with torch.no_grad():
        state = model.start(model.encode(source, mask), beams)
        for _ in range(7):
            tokens = [choose.randrange(4, VOCABULARY) for _ in histories]
            histories = [[*history, token] for history, token in zip(histories, tokens, strict=True)]
            log_probs, state = model.step(torch.tensor(tokens), state)
            rows = torch.tensor(going).repeat_interleave(beams)
            expected = log_probabilities(model, source[rows], mask[rows], torch.tensor(histories))
            assert log_probs.dtype == torch.float32
            assert_close(log_probs, expected, rtol=rounding(variant), atol=1e-5)
            if choose.random() < 0.3 and len(going) > 1:
                kept = choose.sample(range(len(going)), len(going) - 1)  # in any order
                state = state.keep(torch.tensor(kept))
                going = [going[i] for i in kept]
                histories = [histories[i * beams + beam] for i in kept for beam in range(beams)]
            if choose.random() < 0.7:
                order = [i // beams * beams + choose.randrange(beams) for i in range(len(histories))]
                state = state.reorder(torch.tensor(order))
                histories = [histories[i] for i in order]


@pytest.mark.parametrize("variant", [*WITH_ATTENTION, "transformer"])
def test_beams_share_the_memory_of_their_sentence(variant: str) -> None:
    """No tensor of a state holds the source once per beam; the source is 11 long, as nothing else here is."""
    model = small(variant)
    source = ids(3, 11)
    _, state = model.step(torch.full((12,), 5), model.start(model.encode(source, all_real(source)), beams=4))
    seen = [tensor for tensor in tensors_of(state) if 11 in tensor.shape[1:]]
    assert seen
    assert all(len(tensor) == 3 for tensor in seen)


def tensors_of(part: Any) -> list[Tensor]:
    if isinstance(part, Tensor):
        return [part]
    if isinstance(part, tuple | list):
        return [tensor for inner in part for tensor in tensors_of(inner)]
    if hasattr(part, "__dataclass_fields__"):
        return [tensor for field in fields(part) for tensor in tensors_of(getattr(part, field.name))]
    return []


@attending
def test_recorded_attention_is_a_distribution_over_the_real_tokens(variant: str) -> None:
    model = small(variant)
    source, target = ids(3, 6), ids(3, 4)
    mask = torch.arange(6) < torch.tensor([[6], [2], [1]])
    with recording(model) as records:
        once = model(source, mask, target)
        again = model(source, mask, target)
    assert torch.equal(once, again)
    assert torch.equal(once, model(source, mask, target))  # recording changed nothing
    assert all(name.endswith("cross_attention") for name in records.weights)
    assert len(records.weights) == {"convs2s": 2, "convs2s-wide": 3}.get(variant, 1)
    for entries in records.weights.values():
        assert [tuple(weights.shape) for weights in entries] == [(3, 1, 4, 6)] * 2  # one entry a call
        for weights in entries:
            assert_close(weights.sum(-1), torch.ones(3, 1, 4))
            assert weights.masked_select(~mask[:, None, None]).eq(0).all()
            assert weights[0].std() > 0


@attending
def test_a_probe_replaces_the_weights(variant: str) -> None:
    model = small(variant)
    source, target = ids(2, 5), ids(2, 4)

    def first_only(weights: Tensor, mask: Tensor | None) -> Tensor:
        return torch.zeros_like(weights).index_fill_(-1, torch.tensor([0]), 1.0)

    parts = [part for part in model.modules() if isinstance(part, Probed)]
    plain = model(source, all_real(source), target)
    for part in parts:
        part.probe = first_only
    with recording(model) as records:
        changed = model(source, all_real(source), target)
    assert not torch.allclose(plain, changed)
    for entries in records.weights.values():
        assert entries[0][..., 0].eq(1).all()
    assert all(part.probe is first_only for part in parts)


@attending
def test_alignments_read_the_recorded_attention(variant: str) -> None:
    model = small(variant)
    sources, targets = [[5, 6, 7, 3], [8, 3]], [[9, 10], [11, 12, 13]]
    found = PyTorchEngine(model).cross_attention(sources, targets, SYMBOLS)
    layers = {"convs2s": 2, "convs2s-wide": 3}.get(variant, 1)
    assert [tuple(weights.shape) for weights in found] == [(layers, 1, 3, 4), (layers, 1, 4, 2)]
    for weights in found:
        assert weights.sum(-1) == pytest.approx(1)


@pytest.mark.parametrize("company", ["alone", "ensemble"])
@other
def test_search_gives_the_scores_of_forced_decoding(variant: str, company: str) -> None:
    model: Seq2Seq = small(variant, share_embeddings="none")
    if company == "ensemble":
        other = tiny_transformer(VOCABULARY)
        model = Ensemble([model, other, small("convs2s", seed=3, share_embeddings="none")])
    options = SearchOptions(beam=4, n_best=4, extra_length=4)
    sources = [[token % VOCABULARY for token in source] for source in sentences(5, VOCABULARY, longest=6)]
    found = decode(model, sources, options, SYMBOLS)
    for source, hypotheses in zip(sources, found, strict=True):
        targets = [hypothesis.tokens for hypothesis in hypotheses]
        assert len(set(targets)) == 4
        forced = PyTorchEngine(model).score([source] * 4, targets, SYMBOLS, alpha=options.alpha)
        for hypothesis, expected in zip(hypotheses, forced, strict=True):
            assert hypothesis.score == pytest.approx(expected.score, abs=1e-4)
            assert hypothesis.token_log_probabilities == pytest.approx(expected.token_log_probabilities, abs=1e-3)


@other
def test_a_beam_of_one_is_greedy(variant: str) -> None:
    model = small(variant, share_embeddings="none")
    sources = sentences(4, VOCABULARY, longest=6)
    found = decode(model, sources, SearchOptions(beam=1, extra_length=5), SYMBOLS)
    for source, (hypothesis,) in zip(sources, found, strict=True):
        words, total = greedy(model, source, longest=len(source) - 1 + 5)
        assert hypothesis.tokens == words
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("variant", ["convs2s", "transformer"])
def test_too_long_a_sequence_is_refused(variant: str) -> None:
    model = small(variant, max_length=4)
    source = ids(1, 5)
    with pytest.raises(ValueError, match=r"expected at most 4 positions \(model.max_length\), found 5"):
        model.encode(source, all_real(source))
    state = model.start(model.encode(source[:, :4], all_real(source[:, :4])))
    for _ in range(4):
        _, state = model.step(torch.tensor([5]), state)
    with pytest.raises(ValueError, match="expected at most 4 positions"):
        model.step(torch.tensor([5]), state)


@every
def test_bfloat16_is_near_float32(variant: str) -> None:
    model = small(variant)
    source = ids(2, 4)
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        model.compute_dtype = dtype
        memory = model.encode(source, all_real(source))
        assert memory.states.dtype == dtype
        assert model.decode(memory, source).dtype == dtype
        found[dtype], _ = model.step(torch.tensor([5, 6]), model.start(memory))
        assert found[dtype].dtype == torch.float32
        assert_close(found[dtype].exp().sum(-1), torch.ones(2))
    rtol, atol = (0, 0.1) if "transformer" in variant else (0.02, 0.2)
    assert_close(found[torch.bfloat16], found[torch.float32], rtol=rtol, atol=atol)


@other
def test_every_parameter_learns_is_saved_and_comes_back(variant: str, tmp_path: Path) -> None:
    model = small(variant).train()
    source = ids(3, 5)
    model(source, all_real(source), ids(3, 4)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # A score of one constant for all keys is no score: that bias alone has no effect.
        assert parameter.grad.abs().sum() > 0, name
    save_file({n: p.detach().contiguous() for n, p in model.named_parameters()}, tmp_path / "m.safetensors")
    other = small(variant, seed=1)
    load_weights(other, tmp_path / "m.safetensors")
    source, target = ids(2, 5), ids(2, 4)
    assert torch.equal(other(source, all_real(source), target), model.eval()(source, all_real(source), target))


@pytest.mark.parametrize("share", ["all", "target", "none"])
@every
def test_embeddings_are_shared_as_asked(variant: str, share: str) -> None:
    model = small(variant, sizes=(19, 19), share_embeddings=share)
    weights = [model.get_parameter("source_embedding.weight"), model.output_weight]
    target = model.get_submodule("target_embedding")
    assert isinstance(target, nn.Embedding)
    distinct = {id(weight) for weight in [*weights, target.weight]}
    assert len(distinct) == {"all": 1, "target": 2, "none": 3}[share]


@other
def test_dropout_acts_in_training_only(variant: str) -> None:
    model = small(variant, dropout=0.5)
    source, target = ids(2, 5), ids(2, 4)
    assert torch.equal(model(source, all_real(source), target), model(source, all_real(source), target))
    model.train()
    assert not torch.equal(model(source, all_real(source), target), model(source, all_real(source), target))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["bahdanau", "luong", "gnmt", "sutskever", "convs2s"])
def test_reversing_is_learned(variant: str) -> None:
    """Sequences of 3 of 5 symbols, reversed: after 150 steps nearly all tokens of an unseen batch are right."""
    torch.manual_seed(1)
    layers = 3 if variant == "gnmt" else 1
    changes = {"encoder_layers": layers, "decoder_layers": layers, "d_model": 32, "heads": 4, "dropout": 0.0}
    config = ModelConfig.model_validate({**VARIANTS[variant], **changes})
    config.recurrent.size = None
    model = build_model(config, 9, 9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    right = 0.0
    for step in range(151):
        source = torch.cat([torch.randint(4, 9, (32, 3)), torch.full((32, 1), 3)], dim=1)
        output = torch.cat([source[:, :3].flip(1), torch.full((32, 1), 3)], dim=1)
        target = torch.cat([torch.full((32, 1), 2), output[:, :3]], dim=1)
        logits = model.project(model(source, all_real(source), target))
        if step == 150:
            right = (logits.argmax(-1) == output).float().mean().item()
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.flatten(0, 1), output.flatten()).backward()
        optimizer.step()
    assert right > 0.95


@pytest.mark.parametrize("architecture", ["recurrent", "convolutional"])
def test_without_heads_and_sinusoids_every_width_will_do(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, encoder_layers=1, decoder_layers=1, d_model=9)
    model = build_model(config, VOCABULARY, VOCABULARY)
    source, target = torch.randint(VOCABULARY, (2, 5)), torch.randint(VOCABULARY, (2, 4))
    assert model(source, torch.ones_like(source, dtype=torch.bool), target).shape == (2, 4, 9)

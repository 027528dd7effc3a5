"""Headwise's Transformer against Hugging Face's Marian, with copied random weights; nothing is downloaded.

Marian differs from the paper in three ways, which are options of Headwise or converted here: its projections have
biases (`attention_bias`), its activation is SiLU, and its position table has all sines, then all cosines.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.transformer import Transformer
from headwise.nn.positions import sinusoids
from seq2seq import (
    VOCABULARY,
    assert_same,
    gradients,
    logits_of,
    padded_batch,
    random_projection,
    randomized,
)

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

PAD = 0
BATCHES = {
    "one-sentence": padded_batch(1, [7], [5]),
    "padded": padded_batch(2, [3, 9, 1, 6], [8, 2, 5, 1]),
    "equally-long": padded_batch(3, [4, 4], [4, 4]),
}


def marian(activation: str = "swish", implementation: str = "eager") -> nn.Module:
    """Build a Marian model with random weights; normalization gains and biases are random too."""
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        d_model=24,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=40,
        decoder_ffn_dim=40,
        max_position_embeddings=32,
        activation_function=activation,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=3,
        bos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
        init_std=0.3,
        attn_implementation=implementation,
    )
    torch.manual_seed(0)
    model = randomized(transformers.MarianMTModel(config).eval())
    assert model.final_logits_bias.eq(0).all()  # a buffer without counterpart in Headwise
    return model


OURS_TO_MARIAN = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "around_attention.norm": "self_attn_layer_norm",
    "around_self_attention.norm": "self_attn_layer_norm",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "feed_forward.w1": "fc1",
    "feed_forward.w2": "fc2",
    ".query.": ".q_proj.",
    ".key.": ".k_proj.",
    ".value.": ".v_proj.",
    ".output.": ".out_proj.",
}


def marian_name(ours: str) -> str:
    if ours == "source_embedding.weight":
        return "model.shared.weight"
    stack, index, rest = ours.split(".", 2)
    for part, theirs in OURS_TO_MARIAN.items():
        # whole parts of the name only: "around_self_attention" also contains "self_attention"
        if rest.startswith(f"{part}.") or (part.startswith(".") and part in rest):
            rest = rest.replace(part, theirs, 1)
    return f"model.{stack}.layers.{index}.{rest}"


def our_twin(theirs: nn.Module, kind: str) -> Transformer:
    """Build Headwise's model of the same shape, with Marian's weights and order of the position table."""
    config = theirs.config
    model = Transformer(
        ModelConfig(
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            d_model=config.d_model,
            d_ff=config.encoder_ffn_dim,
            heads=config.encoder_attention_heads,
            activation={"swish": "silu", "relu": "relu"}[config.activation_function],
            attention=kind,
            attention_bias=True,
            max_length=config.max_position_embeddings,
        ),
        VOCABULARY,
        VOCABULARY,
    )
    weights = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights.pop(marian_name(name)))
        model.positions.table = marian_order(model.positions.table)
    # The remaining parameters of Marian are its two position tables, which are not trained.
    assert {name for name, left in weights.items() if left.requires_grad} == set()
    assert set(weights) == {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}
    return model.eval()


def marian_order(table: Tensor) -> Tensor:
    """Reorder a position table: all sines, then all cosines."""
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


def test_the_position_tables_hold_the_same_numbers() -> None:
    theirs = marian().model.encoder.embed_positions.weight
    torch.testing.assert_close(marian_order(sinusoids(32, 24)), theirs.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("activation", ["swish", "relu"])
@pytest.mark.parametrize(("kind", "implementation"), [("reference", "eager"), ("fused", "sdpa")])
@pytest.mark.parametrize("batch", BATCHES)
def test_logits_and_gradients(batch: str, kind: str, implementation: str, activation: str) -> None:
    padded = BATCHES[batch]
    # In float64, because float32 rounding differs between processors by as much as the tolerance.
    theirs = marian(activation, implementation).double()
    model = our_twin(theirs, kind).double()
    model.compute_dtype = torch.float64
    real = padded.target_mask
    hidden = model(padded.source, padded.source_mask, padded.target)
    logits, expected = model.project(hidden), logits_of(theirs, padded)
    torch.testing.assert_close(logits[real], expected[real], rtol=1e-5, atol=1e-5)

    random_projection(logits, real).backward()
    random_projection(expected, real).backward()
    trained = {name: p for name, p in theirs.named_parameters() if p.requires_grad}
    named = {marian_name(name): p for name, p in model.named_parameters()}
    assert_same(gradients(named), gradients(trained), tolerance=1e-5)


def test_the_encoder_alone() -> None:
    padded = BATCHES["padded"]
    theirs = marian()
    model = our_twin(theirs, "fused")
    states = model.encode(padded.source, padded.source_mask).states
    expected = theirs.model.encoder(input_ids=padded.source, attention_mask=padded.source_mask.long())
    real = padded.source_mask
    torch.testing.assert_close(states[real], expected.last_hidden_state[real], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_greedy_decoding_with_both_caches() -> None:
    """Each library decodes with its own cache; the tokens and their log-probabilities agree."""
    padded = BATCHES["padded"]
    theirs = marian()
    model = our_twin(theirs, "fused")
    result = theirs.generate(
        input_ids=padded.source,
        attention_mask=padded.source_mask.long(),
        max_new_tokens=12,
        min_new_tokens=12,
        num_beams=1,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    state = model.start(model.encode(padded.source, padded.source_mask))
    for position in range(12):
        log_probs, state = model.step(result.sequences[:, position], state)
        expected = result.logits[position].log_softmax(-1)
        torch.testing.assert_close(log_probs, expected, rtol=1e-5, atol=1e-5)

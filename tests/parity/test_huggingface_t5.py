"""Headwise's Transformer against Hugging Face's T5, with copied random weights; nothing is downloaded.

T5 differs from the paper in ways that are options of Headwise (pre-norm RMSNorm, no biases, learned position biases by
distance buckets, unscaled embeddings, gating in version 1.1), and in two that are folded into the weights here: its
scores are not divided by √d_k, so our query weights are multiplied by it; and version 1.0, which shares its embeddings
with the output, scales the decoder's output by 1/√d_model, so our decoder's final normalization is scaled by it.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from headwise.config import ModelConfig
from headwise.models.transformer import Transformer
from seq2seq import VOCABULARY, logits_of, padded_batch

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

PAD = 0
VERSIONS = {"1.0": ("relu", True), "1.1": ("gated-gelu", False)}
every_version = pytest.mark.parametrize("version", VERSIONS)
every_kind = pytest.mark.parametrize("kind", ["reference", "fused", "memory_efficient"])
BATCHES = {
    "one-sentence": padded_batch(1, [7], [5]),
    "padded": padded_batch(2, [3, 19, 1, 6], [8, 2, 25, 1]),
}


def t5(version: str) -> nn.Module:
    """Build a T5 with random weights and gains, whose buckets end before the longest distance in the tests."""
    feed_forward, tied = VERSIONS[version]
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=24,
        d_kv=5,
        d_ff=40,
        num_layers=2,
        num_decoder_layers=2,  # as in the encoder, because transformers sizes the caches by num_layers
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        feed_forward_proj=feed_forward,
        tie_word_embeddings=tied,
        dropout_rate=0.0,
        pad_token_id=PAD,
        eos_token_id=3,
        decoder_start_token_id=2,
        initializer_factor=1.0,
    )
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    if not tied:  # recent versions of transformers tie them regardless of the configuration
        model.lm_head.weight = nn.Parameter(torch.randn(VOCABULARY, config.d_model))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" in name:
                parameter.normal_(mean=1.0, std=0.3)
            elif name == "shared.weight":
                parameter.normal_(std=0.1)  # small, so that generation doesn't repeat the last token
            elif name != "lm_head.weight":
                parameter.normal_(std=0.3)
    return model


def our_twin(theirs: nn.Module, version: str, kind: str) -> Transformer:
    """Build Headwise's model of the same shape with T5's weights."""
    shape, (_, tied) = theirs.config, VERSIONS[version]
    config = ModelConfig.model_validate(
        {
            "encoder_layers": shape.num_layers,
            "decoder_layers": shape.num_decoder_layers,
            "d_model": shape.d_model,
            "d_ff": shape.d_ff,
            "heads": shape.num_heads,
            "d_k": shape.d_kv,
            "d_v": shape.d_kv,
            "norm": "pre",
            "normalization": "rms",
            "norm_epsilon": shape.layer_norm_epsilon,
            "feed_forward_bias": False,
            "activation": "relu" if tied else "gelu_tanh",
            "gated": not tied,
            "positions": "t5",
            "position_options": {"t5": {"buckets": 8, "reach": 12}},
            "scale_embeddings": False,
            "share_embeddings": "all" if tied else "none",
            "attention": kind,
        }
    )
    model = Transformer(config, VOCABULARY, VOCABULARY)
    weights = dict(theirs.named_parameters())
    shared = weights.pop("shared.weight")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in ("source_embedding.weight", "target_embedding.weight"):
                parameter.copy_(shared)
                continue
            scale = math.sqrt(shape.d_kv) if name.endswith("query.weight") else 1.0
            if name == "decoder_norm.weight" and tied:
                scale = shape.d_model**-0.5
            parameter.copy_(scale * weights.pop(t5_name(name, tied)))
    assert not weights, f"left over: {sorted(weights)}"
    return model.eval()


# T5 numbers its sub-layers: self-attention, cross-attention in the decoder, feed-forward.
PARTS = {
    "encoder": {"self_attention": 0, "around_attention": 0, "feed_forward": 1, "around_feed_forward": 1},
    "decoder": {
        "self_attention": 0,
        "around_self_attention": 0,
        "cross_attention": 1,
        "around_cross_attention": 1,
        "feed_forward": 2,
        "around_feed_forward": 2,
    },
}
LEAVES = {"query": "q", "key": "k", "value": "v", "output": "o"}


def t5_name(ours: str, tied: bool) -> str:
    """Return T5's name of a parameter."""
    if ours == "output_projection.weight":
        return "lm_head.weight"
    stack, rest = ours.split(".", 1)
    if stack.endswith("_norm"):
        return f"{stack.removesuffix('_norm')}.final_layer_norm.weight"
    index, part, leaf = rest.split(".", 2)
    layer = f"{stack}.block.{index}.layer.{PARTS[stack][part]}"
    if part.startswith("around"):
        return f"{layer}.layer_norm.weight"
    if part == "feed_forward":
        names = {"w1": "wi" if tied else "wi_0", "gate": "wi_1", "w2": "wo"}
        return f"{layer}.DenseReluDense.{names[leaf.split('.')[0]]}.weight"
    module = "EncDecAttention" if part == "cross_attention" else "SelfAttention"
    if leaf == "positions.table":
        return f"{layer}.{module}.relative_attention_bias.weight"
    return f"{layer}.{module}.{LEAVES[leaf.split('.')[0]]}.weight"


@every_version
@every_kind
@pytest.mark.parametrize("name", BATCHES)
def test_logits(version: str, kind: str, name: str) -> None:
    theirs, batch = t5(version), BATCHES[name]
    ours = our_twin(theirs, version, kind)
    with torch.no_grad():
        expected = logits_of(theirs, batch)[batch.target_mask]
        found = ours.project(ours(batch.source, batch.source_mask, batch.target))[batch.target_mask]
    assert expected.std() > 0.05
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


@every_version
@every_kind
def test_greedy_generation_token_for_token(version: str, kind: str) -> None:
    theirs, batch = t5(version), BATCHES["padded"]
    ours = our_twin(theirs, version, kind)
    with torch.no_grad():
        expected = theirs.generate(
            input_ids=batch.source,
            attention_mask=batch.source_mask.long(),
            max_new_tokens=30,
            min_new_tokens=30,
            do_sample=False,
            num_beams=1,
            use_cache=True,
        )
        state = ours.start(ours.encode(batch.source, batch.source_mask))
        tokens = [torch.full((batch.source.size(0),), 2)]
        for _ in range(30):
            scores, state = ours.step(tokens[-1], state)
            scores[:, 3] = -torch.inf  # as `min_new_tokens` does, so that all 30 tokens are compared
            tokens.append(scores.argmax(-1))
    assert torch.equal(torch.stack(tokens, 1), expected)
    assert len(expected.unique()) > 5

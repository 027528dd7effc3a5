"""Decoder-only and encoder-only models against Hugging Face's GPT-2, Llama, BERT and ViT, with copied random weights.

Nothing is downloaded. All weights are random, so that none is at its default.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.models.decoder_only import DecoderOnly
from headwise.models.encoder_only import EncoderOnly
from headwise.models.output_heads import MaskedTokenHead, Pooler
from headwise.models.vision import ImageClassifier

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

VOCABULARY, LONGEST = 61, 48
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
SMALL = {
    "d_model": 24,
    "d_ff": 40,
    "heads": 4,
    "max_length": LONGEST,
    "scale_embeddings": False,
    "dropout": 0.0,
}
GPT2 = {
    **SMALL,
    "decoder_layers": 3,
    "norm": "pre",
    "activation": "gelu_tanh",
    "positions": "learned",
    "attention_bias": True,
}
LLAMA = {
    **SMALL,
    "decoder_layers": 3,
    "norm": "pre",
    "normalization": "rms",
    "norm_epsilon": 1e-6,
    "activation": "silu",
    "gated": True,
    "feed_forward_bias": False,
    "positions": "rotary",
    "position_options": {"rotary": {"pairs": "halves", "base": 500.0}},
    "key_value_heads": 2,
    "share_embeddings": "none",
}
BERT = {
    **SMALL,
    "encoder_layers": 3,
    "norm": "post",
    "norm_epsilon": 1e-12,
    "activation": "gelu",
    "positions": "learned",
    "attention_bias": True,
    "embedding_norm": True,
    "segments": 2,
}
VIT = {
    **SMALL,
    "encoder_layers": 3,
    "norm": "pre",
    "norm_epsilon": 1e-12,
    "activation": "gelu",
    "positions": "learned",
    "attention_bias": True,
}


def shake(model: Any) -> Any:
    """Randomize every parameter; normalization gains are around 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            center = 1.0 if parameter.dim() == 1 and "weight" in name else 0.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2 + center)
    return model.eval()


def ids(*shape: int) -> Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


def pour(weights: dict[str, Tensor], model: nn.Module) -> None:
    """Copy weights into a model; `weights` must have all its parameters."""
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, tensor in weights.items():
            parameters[name].copy_(tensor)


def renamed(theirs: nn.Module, names: dict[str, str], *, transposed: bool = False) -> dict[str, Tensor]:
    """Return weights and biases of Hugging Face modules under Headwise's names."""
    found: dict[str, Tensor] = {}
    for name, ours in names.items():
        for kind, parameter in theirs.get_submodule(name).named_parameters():
            found[f"{ours}.{kind}"] = parameter.T if transposed and parameter.dim() == 2 else parameter
    return found


@pytest.fixture(scope="module")
def gpt2() -> tuple[Any, DecoderOnly]:
    theirs = shake(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=VOCABULARY, n_positions=LONGEST, n_embd=24, n_layer=3, n_head=4, n_inner=40,
                bos_token_id=2, eos_token_id=3, pad_token_id=0,
            )
        )
    )  # fmt: skip
    ours = DecoderOnly(ModelConfig.model_validate(GPT2), VOCABULARY).eval()
    weights = {
        "embedding.weight": theirs.transformer.wte.weight,
        "positions.table": theirs.transformer.wpe.weight,
        **renamed(theirs.transformer, {"ln_f": "norm"}),
    }
    for i, block in enumerate(theirs.transformer.h):
        joined = renamed(block, {"attn.c_attn": "qkv"}, transposed=True)
        for kind, tensor in joined.items():
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                weights[f"layers.{i}.self_attention.{part}.{kind.removeprefix('qkv.')}"] = piece
        weights |= renamed(
            block,
            {
                "attn.c_proj": f"layers.{i}.self_attention.output",
                "mlp.c_fc": f"layers.{i}.feed_forward.w1",
                "mlp.c_proj": f"layers.{i}.feed_forward.w2",
            },
            transposed=True,
        )
        norms = {"ln_1": f"layers.{i}.around_attention.norm", "ln_2": f"layers.{i}.around_feed_forward.norm"}
        weights |= renamed(block, norms)
    pour(weights, ours)
    return theirs, ours


@pytest.fixture(scope="module")
def llama() -> tuple[Any, DecoderOnly]:
    theirs = shake(
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LONGEST, rms_norm_eps=1e-6,
                rope_parameters={"rope_type": "default", "rope_theta": 500.0},
                bos_token_id=2, eos_token_id=3, pad_token_id=0,
            )
        )
    )  # fmt: skip
    ours = DecoderOnly(ModelConfig.model_validate(LLAMA), VOCABULARY).eval()
    weights = renamed(theirs, {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "output_projection"})
    for i, block in enumerate(theirs.model.layers):
        weights |= renamed(
            block,
            {
                "self_attn.q_proj": f"layers.{i}.self_attention.query",
                "self_attn.k_proj": f"layers.{i}.self_attention.key",
                "self_attn.v_proj": f"layers.{i}.self_attention.value",
                "self_attn.o_proj": f"layers.{i}.self_attention.output",
                "mlp.gate_proj": f"layers.{i}.feed_forward.w1",
                "mlp.up_proj": f"layers.{i}.feed_forward.gate",
                "mlp.down_proj": f"layers.{i}.feed_forward.w2",
                "input_layernorm": f"layers.{i}.around_attention.norm",
                "post_attention_layernorm": f"layers.{i}.around_feed_forward.norm",
            },
        )
    pour(weights, ours)
    return theirs, ours


@pytest.fixture(params=["gpt2", "llama"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, DecoderOnly]:
    return request.getfixturevalue(request.param)


@torch.no_grad()
def test_logits_are_theirs_where_tokens_are_real(pair: tuple[Any, DecoderOnly]) -> None:
    theirs, ours = pair
    tokens = ids(4, 19)
    real = torch.arange(19) < torch.tensor([19, 7, 1, 12])[:, None]
    expected = theirs(input_ids=tokens, attention_mask=real.long()).logits
    assert_close(ours.project(ours(tokens))[real], expected[real], **TOLERANCE)


@torch.no_grad()
def test_cached_generation_is_theirs_token_for_token(pair: tuple[Any, DecoderOnly]) -> None:
    theirs, ours = pair
    prompt = ids(3, 6)
    theirs.generation_config.eos_token_id = None
    expected = theirs.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=30
    )
    found, fed, state = prompt, prompt, ours.start()
    for _ in range(30):
        log_probs, state = ours.step(fed, state)
        fed = log_probs.argmax(-1, keepdim=True)
        found = torch.cat([found, fed], dim=1)
    assert torch.equal(found, expected)
    assert len(set(found[0].tolist())) > 8  # it doesn't repeat one token, which would be a weak test


@torch.no_grad()
def test_an_encoder_with_segments_and_its_heads_are_berts() -> None:
    theirs = shake(
        transformers.BertForPreTraining(
            transformers.BertConfig(
                vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=3, num_attention_heads=4,
                intermediate_size=40, max_position_embeddings=LONGEST, type_vocab_size=2,
            )
        )
    )  # fmt: skip
    config = ModelConfig.model_validate(BERT)
    ours = EncoderOnly(config, VOCABULARY).eval()
    bert = theirs.bert
    weights = {
        "positions.table": bert.embeddings.position_embeddings.weight,
        **renamed(
            bert.embeddings,
            {
                "word_embeddings": "embedding",
                "token_type_embeddings": "positions.segments",
                "LayerNorm": "positions.norm",
            },
        ),
    }
    names = {
        "attention.self.query": "self_attention.query",
        "attention.self.key": "self_attention.key",
        "attention.self.value": "self_attention.value",
        "attention.output.dense": "self_attention.output",
        "attention.output.LayerNorm": "around_attention.norm",
        "intermediate.dense": "feed_forward.w1",
        "output.dense": "feed_forward.w2",
        "output.LayerNorm": "around_feed_forward.norm",
    }
    for i, layer in enumerate(bert.encoder.layer):
        weights |= renamed(layer, {a: f"encoder.layers.{i}.{b}" for a, b in names.items()})
    pour(weights, ours)
    pooler, head = Pooler(24), MaskedTokenHead(config, VOCABULARY).eval()
    pour(renamed(bert, {"pooler.dense": "dense"}), pooler)
    predictions = theirs.cls.predictions
    found = renamed(predictions, {"transform.dense": "dense", "transform.LayerNorm": "norm"})
    pour({**found, "bias": predictions.bias}, head)

    tokens, segments = ids(4, 13), ids(4, 13) % 2
    real = torch.arange(13) < torch.tensor([13, 5, 1, 9])[:, None]
    expected = bert(input_ids=tokens, attention_mask=real.long(), token_type_ids=segments)
    hidden = ours(tokens, real, segments)
    assert_close(hidden[real], expected.last_hidden_state[real], **TOLERANCE)
    assert_close(pooler(hidden, real), expected.pooler_output, **TOLERANCE)
    logits = theirs(input_ids=tokens, attention_mask=real.long(), token_type_ids=segments).prediction_logits
    assert_close(head(hidden, ours.embedding.weight)[real], logits[real], **TOLERANCE)
    alone = bert(input_ids=tokens).last_hidden_state  # without padding, all in the first segment
    assert_close(ours(tokens), alone, **TOLERANCE)


@torch.no_grad()
def test_a_classifier_of_images_is_vits() -> None:
    """Patches, class token, positions, encoder and head, on non-square images with three channels."""
    theirs = shake(
        transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
                image_size=(8, 12), patch_size=4, num_channels=3, num_labels=5,
            )
        )
    )  # fmt: skip
    vit = theirs.vit
    config = ModelConfig.model_validate({**VIT, "max_length": 7})
    ours = ImageClassifier(config, (3, 8, 12), 4, 5, class_token=True).eval()
    projection = vit.embeddings.patch_embeddings.projection
    weights = {
        "vision.class_token": vit.embeddings.cls_token[0, 0],
        "vision.positions.table": vit.embeddings.position_embeddings[0],
        "vision.patch.weight": projection.weight.flatten(1),
        "vision.patch.bias": projection.bias,
        **renamed(theirs, {"vit.layernorm": "vision.encoder.norm", "classifier": "output"}),
    }
    names = {
        "attention.q_proj": "self_attention.query",
        "attention.k_proj": "self_attention.key",
        "attention.v_proj": "self_attention.value",
        "attention.o_proj": "self_attention.output",
        "layernorm_before": "around_attention.norm",
        "layernorm_after": "around_feed_forward.norm",
        "mlp.fc1": "feed_forward.w1",
        "mlp.fc2": "feed_forward.w2",
    }
    for i, layer in enumerate(vit.layers):
        weights |= renamed(layer, {a: f"vision.encoder.layers.{i}.{b}" for a, b in names.items()})
    pour(weights, ours)
    pixels = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(2))
    assert_close(ours.vision(pixels), vit(pixel_values=pixels).last_hidden_state, **TOLERANCE)
    assert_close(ours(pixels), theirs(pixel_values=pixels).logits, **TOLERANCE)

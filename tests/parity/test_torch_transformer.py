"""Headwise's Transformer against `torch.nn.Transformer` with copied weights: outputs and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from headwise.models.transformer import DecoderLayer, EncoderLayer, Transformer
from headwise.nn.multihead import MultiHeadAttention
from seq2seq import (
    VOCABULARY,
    PaddedBatch,
    assert_same,
    copy_norm,
    gradients,
    padded_batch,
    random_projection,
    small_model,
)

BATCHES = {
    "one-sentence": padded_batch(1, [7], [5]),
    "padded": padded_batch(2, [3, 9, 1, 6], [8, 2, 5, 1]),
    "equally-long": padded_batch(3, [4, 4], [4, 4]),
}


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Copy the weights; torch stores W^Q, W^K and W^V of all heads in one weight, in this order."""
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def torch_twin(model: Transformer) -> nn.Transformer:
    """Build torch's model of the same shape with the same weights."""
    config = model.config
    pre = config.norm == "pre"
    options = {
        "d_model": config.d_model,
        "nhead": config.heads,
        "dim_feedforward": config.d_ff,
        "dropout": config.dropout,
        "activation": config.activation,
        "norm_first": pre,
        "batch_first": True,
    }
    # The paper has no normalization after the last post-norm layer; torch's default adds one.
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**options),
        config.encoder_layers,
        nn.LayerNorm(config.d_model) if pre else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**options),
        config.decoder_layers,
        nn.LayerNorm(config.d_model) if pre else None,
    )
    theirs = nn.Transformer(
        config.d_model, config.heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    with torch.no_grad():
        for ours_layer, layer in zip(model.encoder, encoder.layers, strict=True):
            assert isinstance(ours_layer, EncoderLayer)
            copy_attention(ours_layer.self_attention, layer.self_attn)
            copy_rest(ours_layer, layer)
            copy_norm(ours_layer.around_attention.norm, layer.norm1)
            copy_norm(ours_layer.around_feed_forward.norm, layer.norm2)
        for ours_layer, layer in zip(model.decoder, decoder.layers, strict=True):
            assert isinstance(ours_layer, DecoderLayer)
            copy_attention(ours_layer.self_attention, layer.self_attn)
            copy_attention(ours_layer.cross_attention, layer.multihead_attn)
            copy_rest(ours_layer, layer)
            copy_norm(ours_layer.around_self_attention.norm, layer.norm1)
            copy_norm(ours_layer.around_cross_attention.norm, layer.norm2)
            copy_norm(ours_layer.around_feed_forward.norm, layer.norm3)
        if pre:
            copy_norm(model.encoder_norm, encoder.norm)
            copy_norm(model.decoder_norm, decoder.norm)
    return theirs.eval()


def copy_rest(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    theirs.linear1.load_state_dict(ours.feed_forward.w1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.w2.state_dict())


def embed(table: Tensor, ids: Tensor) -> Tensor:
    """Scaled embeddings plus sinusoidal positions (sections 3.4 and 3.5), computed elementwise."""
    d_model = table.size(1)
    rows = []
    for sentence in ids.tolist():
        rows.append([])
        for position, token in enumerate(sentence):
            angles = [position / 10000 ** (2 * (i // 2) / d_model) for i in range(d_model)]
            encoding = [math.sin(a) if i % 2 == 0 else math.cos(a) for i, a in enumerate(angles)]
            rows[-1].append(table[token] * math.sqrt(d_model) + torch.tensor(encoding))
    return torch.stack([torch.stack(row) for row in rows])


def torch_forward(theirs: nn.Transformer, table: Tensor, batch: PaddedBatch) -> Tensor:
    return theirs(
        embed(table, batch.source),
        embed(table, batch.target),
        tgt_mask=torch.ones(2 * (batch.target.size(1),), dtype=torch.bool).triu(1),  # torch: True = may not
        src_key_padding_mask=~batch.source_mask,
        tgt_key_padding_mask=~batch.target_mask,
        memory_key_padding_mask=~batch.source_mask,
    )


def named_pairs(model: Transformer, theirs: nn.Transformer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the gradients of both models under our names; torch's joint input projection is split."""
    found: dict[str, Tensor] = {}
    parameters = gradients(dict(theirs.named_parameters()))

    def add(ours: str, name: str) -> None:
        for part in ("weight", "bias"):
            found[f"{ours}.{part}"] = parameters[f"{name}.{part}"]

    def add_attention(ours: str, name: str) -> None:
        for part in ("weight", "bias"):
            joined = parameters[f"{name}.in_proj_{part}"].chunk(3)
            for piece, gradient in zip(("query", "key", "value"), joined, strict=True):
                found[f"{ours}.{piece}.{part}"] = gradient
        add(f"{ours}.output", f"{name}.out_proj")

    for stack, count, norms in (
        ("encoder", len(model.encoder), ["attention", "feed_forward"]),
        ("decoder", len(model.decoder), ["self_attention", "cross_attention", "feed_forward"]),
    ):
        for i in range(count):
            ours, name = f"{stack}.{i}", f"{stack}.layers.{i}"
            add_attention(f"{ours}.self_attention", f"{name}.self_attn")
            if stack == "decoder":
                add_attention(f"{ours}.cross_attention", f"{name}.multihead_attn")
            add(f"{ours}.feed_forward.w1", f"{name}.linear1")
            add(f"{ours}.feed_forward.w2", f"{name}.linear2")
            for number, norm in enumerate(norms, start=1):
                add(f"{ours}.around_{norm}.norm", f"{name}.norm{number}")
        if model.config.norm == "pre":
            add(f"{stack}_norm", f"{stack}.norm")
    return gradients(dict(model.named_parameters())), found


@pytest.mark.parametrize("kind", ["reference", "fused"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("batch", BATCHES)
def test_outputs_and_gradients(batch: str, norm: str, activation: str, kind: str) -> None:
    padded = BATCHES[batch]
    model = small_model(norm=norm, activation=activation, attention=kind)
    theirs = torch_twin(model)
    table = model.source_embedding.weight.detach().clone().requires_grad_()

    hidden = model(padded.source, padded.source_mask, padded.target)
    expected = torch_forward(theirs, table, padded)
    real = padded.target_mask
    torch.testing.assert_close(hidden[real], expected[real], rtol=1e-5, atol=1e-5)

    logits, their_logits = model.project(hidden), expected @ table.t()
    assert logits.shape == (*padded.target.shape, VOCABULARY)
    random_projection(logits, real).backward()
    random_projection(their_logits, real).backward()
    ours, found = named_pairs(model, theirs)
    assert table.grad is not None
    assert_same(ours, {"source_embedding.weight": table.grad, **found}, tolerance=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_encoder_alone(norm: str) -> None:
    padded = BATCHES["padded"]
    model = small_model(norm=norm)
    theirs = torch_twin(model)
    memory = model.encode(padded.source, padded.source_mask)
    with torch.no_grad():
        embedded = embed(model.source_embedding.weight, padded.source)
    expected = theirs.encoder(embedded, src_key_padding_mask=~padded.source_mask)
    assert torch.equal(memory.mask, padded.source_mask)
    torch.testing.assert_close(memory.states[padded.source_mask], expected[padded.source_mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_step_by_step(norm: str) -> None:
    """Log-probabilities of our decoding with cache equal torch's without cache."""
    padded = BATCHES["padded"]
    model = small_model(norm=norm)
    theirs = torch_twin(model)
    with torch.no_grad():
        table = model.source_embedding.weight
        expected = (torch_forward(theirs, table, padded) @ table.t()).log_softmax(-1)
        state = model.start(model.encode(padded.source, padded.source_mask))
        for position in range(padded.target.size(1)):
            log_probs, state = model.step(padded.target[:, position], state)
            real = padded.target_mask[:, position]
            torch.testing.assert_close(log_probs[real], expected[real, position], rtol=1e-5, atol=1e-5)

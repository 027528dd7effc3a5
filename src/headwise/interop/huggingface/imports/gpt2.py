"""GPT-2 of `transformers` (Radford et al. 2019): a decoder-only model with learned positions and byte-level pieces."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from headwise.config import ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.interop.base import Imported
from headwise.interop.huggingface.fields import (
    find_activation,
    make_config,
    read_keys,
    unexpected,
)
from headwise.interop.huggingface.imports.language_model import Keys, language_model
from headwise.interop.huggingface.parameters import Parameters, Read, changed

# Their names of a layer's parts, and ours. The matrices are transposed there.
MATRICES = {
    "attn.c_proj": "self_attention.output",
    "mlp.c_fc": "feed_forward.w1",
    "mlp.c_proj": "feed_forward.w2",
}
NORMS = {"ln_1": "around_attention.norm", "ln_2": "around_feed_forward.norm"}
JOINED = "attn.c_attn"  # queries, keys and values beside each other
PARTS = ("query", "key", "value")
_ARCHITECTURES = ("GPT2LMHeadModel",)


class Fields(Keys):
    """What config.json must have."""

    n_embd: Width = 768
    n_layer: Layers = 12
    n_head: Heads = 12
    n_inner: Width | None = None
    n_positions: Length = 1024
    activation_function: str = "gelu_new"
    layer_norm_epsilon: Epsilon = 1e-5
    resid_pdrop: Probability = 0.1
    attn_pdrop: Probability = 0.1
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    add_cross_attention: bool = False


def read(source: Path) -> Imported:
    """Read a GPT-2 directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    fields.check(source, _ARCHITECTURES)
    for key, expected in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
        ("tie_word_embeddings", True),
    ):
        if getattr(fields, key) != expected:
            raise unexpected(source, key, str(expected).lower(), getattr(fields, key))
    model = make_config(
        source,
        ModelConfig,
        decoder_layers=fields.n_layer,
        d_model=fields.n_embd,
        d_ff=fields.n_inner or 4 * fields.n_embd,
        heads=fields.n_head,
        norm="pre",
        norm_epsilon=fields.layer_norm_epsilon,
        activation=find_activation(source, "activation_function", fields.activation_function),
        positions="learned",
        attention_bias=True,
        scale_embeddings=False,
        max_length=fields.n_positions,
        dropout=fields.resid_pdrop,
        attention_dropout=fields.attn_pdrop,
    )
    left = Parameters(source, lambda name: name.removeprefix("transformer."))
    left.drop_copy("lm_head.weight", "wte.weight")
    for number in range(fields.n_layer):  # causal masks, stored by old versions
        left.drop((f"h.{number}.attn.bias", f"h.{number}.attn.masked_bias"))
    found = _layers(left, model, source)
    return language_model(source, fields, model, found, {"embedding.weight": left.take("wte.weight")}, left)


def _layers(left: Parameters, model: ModelConfig, source: Path) -> dict[str, Read]:
    """Take the parameters of the layers, the positions and the final normalization."""
    found: dict[str, Read] = {"positions.table": left.take("wpe.weight")}
    for kind in ("weight", "bias"):
        found[f"norm.{kind}"] = left.take(f"ln_f.{kind}")
        for number in range(model.decoder_layers):
            ours, theirs = f"layers.{number}", f"h.{number}"
            joined = left.take(f"{theirs}.{JOINED}.{kind}")
            for part, name in enumerate(PARTS):
                found[f"{ours}.self_attention.{name}.{kind}"] = changed(joined, _part, part)
            for name, our_name in MATRICES.items():
                found[f"{ours}.{our_name}.{kind}"] = changed(
                    left.take(f"{theirs}.{name}.{kind}"), _transposed
                )
            for name, our_name in NORMS.items():
                found[f"{ours}.{our_name}.{kind}"] = left.take(f"{theirs}.{name}.{kind}")
    return found


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.T if tensor.dim() == 2 else tensor


def _part(tensor: Tensor, number: int) -> Tensor:
    """Return queries, keys or values of a joined projection (d_model, 3 · d_model), or of its bias."""
    parts = tensor.chunk(len(PARTS), dim=-1)
    return _transposed(parts[min(number, len(parts) - 1)])

"""Which keys of a model another format can express."""

from __future__ import annotations

from collections.abc import Collection

from headwise.config import ModelConfig

# Keys without effect on the function of a trained Transformer of the paper's kind.
_FREE = ("dropout", "attention_dropout", "activation_dropout", "attention_options", "position_options")
_FULL_ATTENTION = ("fused", "reference", "memory_efficient")  # they compute the same function


def inexpressible(model: ModelConfig, expressible: Collection[str]) -> list[str]:
    """Return `model.KEY=VALUE` for each key with an effect that isn't expressible and differs from its default.

    Sizes of heads that follow from d_model, and kinds of attention that compute full attention, are as the default.
    """
    problems = []
    for key, field in ModelConfig.model_fields.items():
        value, default = getattr(model, key), field.get_default(call_default_factory=True)
        if key in expressible or key in _FREE or value == default:
            continue
        if key in ("attention", "cross_attention") and value in _FULL_ATTENTION:
            continue
        if key in ("d_k", "d_v") and value == model.d_model / model.heads:
            continue
        if key == "key_value_heads" and value == model.heads:
            continue
        if key == "final_norm" and value == (model.norm == "pre"):
            continue
        shown = str(value).lower() if isinstance(value, bool) else value
        problems.append(f"model.{key}={shown}")
    return problems

"""What an engine or a format of models can express: one table for each, of the keys of `model`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headwise.config.model import ModelConfig

# Keys without effect on the function of a trained Transformer of the paper's kind.
_FREE = (
    *("dropout", "attention_dropout", "activation_dropout", "attention_options", "position_options"),
    *("recurrent", "convolutional"),  # of other architectures, which are named already
)
FULL_ATTENTION = ("fused", "reference", "memory_efficient")  # kinds that compute the same function


class Support:
    """The keys that can have any value, and those that can have some `values`; all others must be as the default.

    Sizes of heads that follow from d_model, and kinds of attention that compute full attention, are as the default.
    """

    def __init__(self, *keys: str, **values: Collection[Any]) -> None:
        assert {*keys, *values} <= set(ModelConfig.model_fields)
        self._keys, self._values = {*keys, *_FREE}, values

    def problems(self, model: ModelConfig) -> list[str]:
        """Return `model.KEY=VALUE` for each value that can't be expressed."""
        others = [key for key in ModelConfig.model_fields if key not in self._keys | self._values.keys()]
        found = [key for key in others if not _as_default(model, key)]
        found += [key for key, values in self._values.items() if getattr(model, key) not in values]
        return [f"model.{key}={_shown(getattr(model, key))}" for key in found]


def _as_default(model: ModelConfig, key: str) -> bool:
    value = getattr(model, key)
    if key in ("attention", "cross_attention") and value in FULL_ATTENTION:
        return True
    same = {
        "d_k": model.d_model / model.heads,
        "d_v": model.d_model / model.heads,
        "key_value_heads": model.heads,
        "final_norm": model.norm == "pre",
    }
    default = ModelConfig.model_fields[key].get_default(call_default_factory=True)
    return value == default or (key in same and value == same[key])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

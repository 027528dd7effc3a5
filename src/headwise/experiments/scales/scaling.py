"""The variations of the paper's Table 3, scaled to a base of another size."""

from __future__ import annotations

from headwise.config import ModelConfig
from headwise.config.presets import TRAINING_DIFFERENCES, preset
from headwise.errors import ConfigError


def scaled_changes(name: str, base: ModelConfig, steps: int) -> list[str]:
    """Return the overrides of row `name` of Table 3 for a base of another size, with the paper's ratios to its base.

    Label smoothing keeps the paper's value, P_drop the ratio. Raises `ConfigError` if a size isn't a whole number.
    """
    paper, row = preset("base"), preset(name)
    changes = []
    for key in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads"):
        if getattr(row, key) != getattr(paper, key):
            value = _scaled_size(name, key, getattr(base, key), getattr(row, key), getattr(paper, key))
            changes.append(f"model.{key}={value}")
    for key, size in (("d_k", "key_size"), ("d_v", "value_size")):
        if getattr(row, key) is not None:
            value = _scaled_size(name, key, getattr(base, size), getattr(row, size), getattr(paper, size))
            changes.append(f"model.{key}={value}")
    if row.dropout != paper.dropout:
        changes.append(f"model.dropout={base.dropout * row.dropout / paper.dropout:.3g}")
    if row.positions != paper.positions:
        changes.append(f"model.positions={row.positions}")
    training = TRAINING_DIFFERENCES.get(name, {})
    if "label_smoothing" in training:
        changes.append(f"training.label_smoothing={training['label_smoothing']}")
    if "max_steps" in training:
        changes.append(f"training.max_steps={steps * training['max_steps'] // 100_000}")
    return changes


def _scaled_size(name: str, key: str, ours: int, row: int, paper: int) -> int:
    value, remainder = divmod(ours * row, paper)
    if remainder or not value:
        raise ConfigError(
            f"{name}: expected a base whose {key} can be scaled by {row}/{paper} to a whole number, found {ours}"
        )
    return value

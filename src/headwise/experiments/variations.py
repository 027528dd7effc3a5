"""The rows of table 3 and of its ablation, as overrides of a scale's base; the trials of their rates come later.

A row has the paper's variation with the paper's ratios to its base, whatever the size of the scale's.
"""

from __future__ import annotations

from headwise.config import ModelConfig, presets
from headwise.errors import ConfigError
from headwise.experiments.harness.rows import TrainingRow, configured, replaced
from headwise.experiments.paper import row_name, variation
from headwise.experiments.scales import Scale

# Row of the ablation -> (label, the override).
_WITHOUT = {
    "ablation-positions": ("without positions", "model.positions=none"),
    "ablation-residuals": ("without residual connections", "model.residual=false"),
    "ablation-scaling": ("without the division by √d_k", "model.attention=unscaled"),
}


def variation_row(preset: str, scale: Scale) -> TrainingRow:
    """Return a preset's row: the scale's base with the paper's variation; no checkpoint averaging (section 6.2)."""
    file, changes = scale.base.file, scale.base.changes
    base = configured(file, changes)
    scaled = scaled_changes(preset, base.model, base.training.max_steps)
    if base.schedule.peak is not None:  # as in the paper's formula, the rate scales with d_model^-0.5
        width = configured(file, (*changes, *scaled)).model.d_model
        if width != base.model.d_model:
            scaled.append(f"schedule.peak={base.schedule.peak * (base.model.d_model / width) ** 0.5:.6f}")
    return TrainingRow(
        row_name(preset),
        variation(preset).label,
        scale.name,
        file,
        replaced(changes, (*scaled, "training.average_last=1")),
    )


def ablation_rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each part that is left out of base."""
    base = variation_row("base", scale)
    return [
        TrainingRow(name, label, scale.name, base.config, replaced(base.changes, (change,)))
        for name, (label, change) in _WITHOUT.items()
    ]


def scaled_changes(name: str, base: ModelConfig, steps: int) -> list[str]:
    """Return the overrides of row `name` of Table 3 for a base of another size, with the paper's ratios to its base.

    Label smoothing keeps the paper's value, P_drop the ratio. Raises `ConfigError` if a size isn't a whole number.
    """
    paper, row = presets.preset("base"), presets.preset(name)
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
    training = presets.TRAINING_DIFFERENCES.get(name, {})
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

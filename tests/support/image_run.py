"""Run directories of image tasks: the built-in digits, prepared, and an untrained model with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from headwise.config import Config
from headwise.tasks.registry import find_task

MODEL = {
    "encoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "max_length": 40, "norm": "pre",
    "positions": "learned", "scale_embeddings": False,
}  # fmt: skip


def make_image_run(directory: Path, task: str, *, model_changes: dict[str, Any] | None = None, **options: Any) -> Path:
    """Write a run directory of image_classification or image_text; `options` are the task's options.

    `model_changes` are keys of the model's configuration.
    """
    directory.mkdir(parents=True)
    config = Config.from_tree({"task": task, "model": MODEL | (model_changes or {}), task: options})
    kind = find_task(task)
    prepared = kind.prepare(config, directory / "prepared", expected=None, say=lambda _: None)
    prepared.save(directory)
    torch.manual_seed(4)
    model = kind.build(config, prepared)
    save_file(dict(model.named_parameters()), directory / "model.safetensors")
    (directory / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return directory

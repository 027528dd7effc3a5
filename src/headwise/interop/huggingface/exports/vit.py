"""Export to a Vision Transformer of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from headwise.config import Config
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import TrainedSingle
from headwise.interop.huggingface.card import model_card
from headwise.interop.huggingface.exports.bert import label_keys, needed, position_table
from headwise.interop.huggingface.exports.tokenizer import as_json
from headwise.interop.huggingface.imports.vit import PATCHES, PROCESSOR, parameter_names
from headwise.interop.huggingface.names import THEIR_ACTIVATIONS
from headwise.models.limits import inexpressible

_EXPRESSIBLE = (
    *("encoder_layers", "d_model", "d_ff", "heads", "norm_epsilon", "activation", "positions", "max_length"),
    "attention_bias",
)
_NEEDED = {"norm": "pre", "scale_embeddings": False}


class Exporter(base.Exporter):
    """Writer of ViT directories."""

    library = "transformers"
    tasks = ("image_classification",)

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        model = config.model
        problems = inexpressible(model, (*_EXPRESSIBLE, *_NEEDED)) + needed(model, _NEEDED)
        if model.positions not in ("learned", "sinusoidal"):
            problems.append(f"model.positions={model.positions}")
        if config.image_classification.pooling != "class":
            problems.append(f"image_classification.pooling={config.image_classification.pooling}")
        return f"ViT has no {', '.join(problems)}" if problems else None

    def write(self, trained: TrainedSingle, folder: Path, precision: str) -> list[str]:  # noqa: D102
        form = trained.form
        assert form is not None
        channels, height, width = form.shape
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": height, "width": width},
            "do_rescale": True,
            "rescale_factor": 1 / form.full,
            "do_normalize": True,
            "image_mean": form.mean,
            "image_std": form.deviation,
        }
        content = _configuration(trained, (channels, height, width))
        write_text(folder / "config.json", as_json(content))
        write_text(folder / PROCESSOR, as_json(processor))
        write_bytes(folder / "model.safetensors", save(_tensors(trained, form.shape), {"format": "pt"}))
        write_text(folder / "README.md", model_card(trained, "ViTForImageClassification"))
        return [f"ViTForImageClassification and ViTImageProcessor, for pixels from 0 to {form.full}"]


def _configuration(trained: TrainedSingle, shape: tuple[int, int, int]) -> dict[str, Any]:
    model = trained.config.model
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "hidden_size": model.d_model,
        "num_hidden_layers": model.encoder_layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.d_ff,
        "hidden_act": THEIR_ACTIVATIONS[model.activation],
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "layer_norm_eps": model.norm_epsilon,
        "image_size": shape[1:],
        "patch_size": trained.config.image_classification.patch,
        "num_channels": shape[0],
        "qkv_bias": model.attention_bias,
        "dtype": "float32",
        **label_keys(trained.labels),
    }


def _tensors(trained: TrainedSingle, shape: tuple[int, int, int]) -> dict[str, Tensor]:
    """Return the parameters by their names in `transformers`."""
    model, side = trained.config.model, trained.config.image_classification.patch
    tokens = shape[1] // side * (shape[2] // side) + 1
    tensors = {
        f"{PATCHES}.weight": trained.tensor("vision.patch.weight").view(model.d_model, shape[0], side, side),
        "vit.embeddings.cls_token": trained.tensor("vision.class_token")[None, None],
        "vit.embeddings.position_embeddings": position_table(trained, "vision.positions.table")[
            None, :tokens
        ],
    }
    for ours, theirs in parameter_names(model).items():
        if model.attention_bias or ".self_attention." not in ours or not ours.endswith(".bias"):
            tensors[theirs] = trained.tensor(ours)
        elif theirs.endswith(".output.dense.bias"):  # which `qkv_bias` doesn't mean
            tensors[theirs] = torch.zeros(model.d_model)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}

"""Vision Transformers of `transformers` (Dosovitskiy et al. 2021) with a classifier, as task image_classification."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from headwise import bounds
from headwise.config import Config, ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Pixels, Probability, Width
from headwise.images.prepared import FORMAT_FILE, ImageFormat
from headwise.interop.base import Imported
from headwise.interop.huggingface.fields import Keys, find_activation, make_config, read_keys, unexpected
from headwise.interop.huggingface.labels import read_labels
from headwise.interop.huggingface.parameters import Parameters, changed
from headwise.models.vision import build_classifier

# Their names of an encoder layer's parts, and ours.
LAYER = {
    "attention.attention.query": "self_attention.query",
    "attention.attention.key": "self_attention.key",
    "attention.attention.value": "self_attention.value",
    "attention.output.dense": "self_attention.output",
    "layernorm_before": "around_attention.norm",
    "layernorm_after": "around_feed_forward.norm",
    "intermediate.dense": "feed_forward.w1",
    "output.dense": "feed_forward.w2",
}
PATCHES = "vit.embeddings.patch_embeddings.projection"
PROCESSOR = "preprocessor_config.json"
_FULL = 255  # the maximum value of a pixel in most files
_MOST_FULL = 65535
_ARCHITECTURES = ("ViTForImageClassification",)
_Sides = Pixels | Annotated[list[Pixels], Field(min_length=2, max_length=2)]
_Channels = Literal[1, 3]


class Fields(Keys):
    """What config.json must have."""

    architectures: list[str] = Field(default_factory=list)
    hidden_size: Width = 768
    num_hidden_layers: Layers = 12
    num_attention_heads: Heads = 12
    intermediate_size: Width = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    layer_norm_eps: Epsilon = 1e-12
    image_size: _Sides = 224
    patch_size: _Sides = 16
    num_channels: _Channels = 3
    qkv_bias: bool = True
    id2label: dict[str, str] = Field(default_factory=dict)


class ProcessorFields(Keys):
    """What preprocessor_config.json must have."""

    do_rescale: bool = True
    rescale_factor: Annotated[float, Field(ge=1 / _MOST_FULL, le=1.0)] = 1 / _FULL
    do_normalize: bool = True
    image_mean: list[Annotated[float, Field(ge=-1e6, le=1e6)]] = Field(default_factory=lambda: [0.5] * 3)
    image_std: list[Annotated[float, Field(ge=bounds.SMALLEST, le=1e6)]] = Field(
        default_factory=lambda: [0.5] * 3
    )


def read(source: Path) -> Imported:
    """Read a ViT directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    name = fields.architectures[0] if fields.architectures else ""
    if name not in _ARCHITECTURES:
        raise unexpected(source, "architectures", f"one of {', '.join(_ARCHITECTURES)}", name)
    height, width = _pair(fields.image_size)
    side, other = _pair(fields.patch_size)
    if side != other or height % side or width % side:
        raise unexpected(
            source, "patch_size", f"a square that divides {width} x {height} pixels", fields.patch_size
        )
    model = _model(fields, source, height // side * (width // side) + 1)
    form = _format(source, fields, (fields.num_channels, height, width))
    config = make_config(
        source,
        Config,
        task="image_classification",
        model=model,
        image_classification={"patch": side, "pooling": "class"},
    )
    notes = [
        f"task image_classification, from {name}; `headwise explain --image` reads images of {width} x {height} "
        "pixels, and doesn't resize others as transformers does"
    ]
    return Imported(
        config,
        lambda: build_classifier(model, form.shape, side, len(form.classes), class_token=True),
        _parameters(source, model, fields),
        None,
        notes,
        {FORMAT_FILE: (json.dumps(asdict(form), indent=1) + "\n").encode()},
    )


def _pair(sides: int | list[int]) -> tuple[int, int]:
    """Return height and width."""
    return (sides, sides) if isinstance(sides, int) else (sides[0], sides[1])


def _model(fields: Fields, source: Path, tokens: int) -> ModelConfig:
    return make_config(
        source,
        ModelConfig,
        encoder_layers=fields.num_hidden_layers,
        d_model=fields.hidden_size,
        d_ff=fields.intermediate_size,
        heads=fields.num_attention_heads,
        norm="pre",
        norm_epsilon=fields.layer_norm_eps,
        activation=find_activation(source, "hidden_act", fields.hidden_act),
        positions="learned",
        attention_bias=True,
        scale_embeddings=False,
        max_length=tokens,
        dropout=fields.hidden_dropout_prob,
        attention_dropout=fields.attention_probs_dropout_prob,
    )


def _format(source: Path, fields: Fields, shape: tuple[int, int, int]) -> ImageFormat:
    """Return the normalization of preprocessor_config.json, and the classes."""
    options = (
        read_keys(source, ProcessorFields, PROCESSOR) if (source / PROCESSOR).is_file() else ProcessorFields()
    )
    full = round(1 / options.rescale_factor)
    if not options.do_rescale or abs(options.rescale_factor * full - 1) > 1e-6:
        found = options.rescale_factor if options.do_rescale else None
        raise unexpected(source, "rescale_factor", "1 divided by the largest pixel", found, PROCESSOR)
    mean, deviation = options.image_mean, options.image_std
    if not options.do_normalize:
        mean, deviation = [0.0] * shape[0], [1.0] * shape[0]
    for key, values in (("image_mean", mean), ("image_std", deviation)):
        if len(values) != shape[0]:
            raise unexpected(source, key, f"a number for each of {shape[0]} channels", values, PROCESSOR)
    classes = read_labels(source, fields.id2label)
    return ImageFormat(shape, full, tuple(mean), tuple(deviation), tuple(classes))


def parameter_names(model: ModelConfig) -> dict[str, str]:
    """Return the name in `transformers` of each parameter that has the same shape there."""
    parts = {"vision.encoder.norm": "vit.layernorm", "output": "classifier"}
    for number in range(model.encoder_layers):
        for theirs, ours in LAYER.items():
            parts[f"vision.encoder.layers.{number}.{ours}"] = f"vit.encoder.layer.{number}.{theirs}"
    names = {
        f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in parts.items() for kind in ("weight", "bias")
    }
    return names | {"vision.patch.bias": f"{PATCHES}.bias"}


def _parameters(source: Path, model: ModelConfig, fields: Fields) -> dict[str, Callable[[], Tensor]]:
    left = Parameters(source)
    found: dict[str, Callable[[], Tensor]] = {}
    for ours, theirs in parameter_names(model).items():
        absent = not fields.qkv_bias and ".attention.attention." in theirs and theirs.endswith(".bias")
        found[ours] = partial(torch.zeros, model.d_model) if absent else left.take(theirs)
    for ours, theirs, change in (
        ("vision.patch.weight", f"{PATCHES}.weight", _flat),
        ("vision.class_token", "vit.embeddings.cls_token", torch.Tensor.flatten),
        ("vision.positions.table", "vit.embeddings.position_embeddings", _table),
    ):
        found[ours] = changed(left.take(theirs), change)
    left.drop(("vit.pooler.",))
    left.finish()
    return found


def _flat(kernel: Tensor) -> Tensor:
    """Return a convolution's kernel (width, channels, side, side) as a matrix."""
    return kernel.flatten(1) if kernel.dim() > 1 else kernel


def _table(positions: Tensor) -> Tensor:
    return positions.flatten(0, -2) if positions.dim() > 1 else positions

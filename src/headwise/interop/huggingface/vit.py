"""Vision Transformers of `transformers` (Dosovitskiy et al. 2021), in and out: task image_classification."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from headwise import bounds
from headwise.config import Config, ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Pixels, Probability, Width
from headwise.files import write_text
from headwise.images.prepared import FORMAT_FILE, Channels, ImageFormat
from headwise.interop.base import Array, Imported, TrainedSingle, make_config
from headwise.interop.huggingface.card import write_model
from headwise.interop.huggingface.keys import (
    ONE_LABEL,
    TABLES,
    Keys,
    as_json,
    check_architecture,
    check_one_label,
    label_keys,
    model_config,
    read_keys,
    read_labels,
    supported,
    their_keys,
    unexpected,
)
from headwise.interop.huggingface.tensors import folder_tensors
from headwise.interop.single import shapes_of
from headwise.interop.table import Change, Left, Row, both, their_tensors
from headwise.tasks.image_classification import build_for_images

# Our names of an encoder layer's parts, and theirs; those of queries, keys and values may lack a bias.
_INPUTS = {
    "self_attention.query": "attention.attention.query",
    "self_attention.key": "attention.attention.key",
    "self_attention.value": "attention.attention.value",
}
_LAYER = {
    "self_attention.output": "attention.output.dense",
    "around_attention.norm": "layernorm_before",
    "around_feed_forward.norm": "layernorm_after",
    "feed_forward.w1": "intermediate.dense",
    "feed_forward.w2": "output.dense",
}
_EMBEDDINGS = "vit.embeddings"
_PATCHES = f"{_EMBEDDINGS}.patch_embeddings.projection"
_PROCESSOR = "preprocessor_config.json"
_FULL = 255  # the maximum value of a pixel in most files
_MOST_FULL = 65535
# Their keys and ours, and the keys of ours that have one value there.
_KEYS = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "heads",
    "intermediate_size": "d_ff",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "norm_epsilon",
}
_ALWAYS = {"norm": "pre", "scale_embeddings": False}
_Sides = Pixels | Annotated[list[Pixels], Field(min_length=2, max_length=2)]


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
    num_channels: Channels = 3
    qkv_bias: bool = True
    problem_type: str = ONE_LABEL
    id2label: dict[str, str] = Field(default_factory=dict)


class ProcessorFields(Keys):
    """What preprocessor_config.json must have."""

    do_rescale: bool = True
    rescale_factor: Annotated[float, Field(ge=1 / _MOST_FULL, le=1.0)] = 1 / _FULL
    do_normalize: bool = True
    image_mean: list[Annotated[float, Field(ge=-1e6, le=1e6)]] = Field(default_factory=lambda: [0.5] * 3)
    image_std: list[Annotated[float, Field(ge=bounds.SMALLEST, le=1e6)]] = Field(default_factory=lambda: [0.5] * 3)


def _table(model: ModelConfig, shape: tuple[int, int, int], side: int, *, biased: bool) -> list[Row]:
    """Return our parameters and theirs for images of a shape (channels, height, width) in patches of `side` pixels.

    With `biased`, queries, keys and values have biases there.
    """
    zeros = (model.d_model,)
    rows = both({"vision.encoder.norm": "vit.layernorm", "output": "classifier"})
    for number in range(model.encoder_layers):
        ours, theirs = f"vision.encoder.layers.{number}", f"vit.encoder.layer.{number}"
        rows += both({f"{ours}.{own}": f"{theirs}.{name}" for own, name in _LAYER.items()}, zeros=zeros)
        for own, name in _INPUTS.items():
            rows.append(Row(f"{ours}.{own}.weight", f"{theirs}.{name}.weight"))
            rows.append(Row(f"{ours}.{own}.bias", f"{theirs}.{name}.bias" if biased else None, zeros=zeros))
    channels, height, width = shape
    tokens = height // side * (width // side) + 1
    kernel = Change(_flat, lambda tensor: tensor.reshape(model.d_model, channels, side, side))
    position = Change(_positions, lambda tensor: tensor[None, :tokens])
    return [
        *rows,
        Row("vision.patch.bias", f"{_PATCHES}.bias"),
        Row("vision.patch.weight", f"{_PATCHES}.weight", kernel),
        Row("vision.class_token", f"{_EMBEDDINGS}.cls_token", Change(np.ravel, lambda t: t[None, None])),
        Row("vision.positions.table", f"{_EMBEDDINGS}.position_embeddings", position),
    ]


def _flat(kernel: Array) -> Array:
    """Return a convolution's kernel (width, channels, side, side) as a matrix."""
    return kernel.reshape(len(kernel), -1) if kernel.ndim > 1 else kernel


def _positions(table: Array) -> Array:
    return table.reshape(-1, table.shape[-1]) if table.ndim > 1 else table


def read(source: Path) -> Imported:
    """Read a ViT directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    name = check_architecture(source, fields.architectures, ("ViTForImageClassification",))
    check_one_label(source, fields.problem_type)
    height, width = _pair(fields.image_size)
    side, other = _pair(fields.patch_size)
    if side != other or height % side or width % side:
        raise unexpected(source, "patch_size", f"a square that divides {width} x {height} pixels", fields.patch_size)
    more = {
        "positions": "learned",
        "attention_bias": True,
        "max_length": height // side * (width // side) + 1,
    }
    model = model_config(source, fields, _KEYS, **_ALWAYS, **more)
    form = _format(source, fields, (fields.num_channels, height, width))
    config = make_config(
        source / "config.json",
        Config,
        task="image_classification",
        model=model,
        image_classification={"patch": side, "pooling": "class"},
    )
    left = Left(source, folder_tensors(source))
    found = left.take_rows(_table(model, form.shape, side, biased=fields.qkv_bias))
    left.drop("vit.pooler.")
    left.finish()
    notes = [
        f"task image_classification, from {name}; `headwise explain --image` reads images of {width} x {height} "
        "pixels, and doesn't resize others as transformers does"
    ]
    files = {FORMAT_FILE: (json.dumps(asdict(form), indent=1) + "\n").encode()}
    return Imported(config, shapes_of(lambda: build_for_images(config, form)), found, None, notes, files)


def _pair(sides: int | list[int]) -> tuple[int, int]:
    """Return height and width."""
    return (sides, sides) if isinstance(sides, int) else (sides[0], sides[1])


def _format(source: Path, fields: Fields, shape: tuple[Channels, int, int]) -> ImageFormat:
    """Return the normalization of preprocessor_config.json, and the classes."""
    options = read_keys(source, ProcessorFields, _PROCESSOR) if (source / _PROCESSOR).is_file() else ProcessorFields()
    full = round(1 / options.rescale_factor)
    if not options.do_rescale or abs(options.rescale_factor * full - 1) > 1e-6:
        found = options.rescale_factor if options.do_rescale else None
        raise unexpected(source, "rescale_factor", "1 divided by the largest pixel", found, _PROCESSOR)
    mean, deviation = options.image_mean, options.image_std
    if not options.do_normalize:
        mean, deviation = [0.0] * shape[0], [1.0] * shape[0]
    for key, values in (("image_mean", mean), ("image_std", deviation)):
        if len(values) != shape[0]:
            raise unexpected(source, key, f"a number for each of {shape[0]} channels", values, _PROCESSOR)
    classes = read_labels(source, fields.id2label)
    return ImageFormat(shape, full, tuple(mean), tuple(deviation), tuple(classes))


SUPPORTED = supported(_KEYS, "max_length", "attention_bias", always=_ALWAYS, positions=TABLES)


def refuses(config: Config) -> str | None:
    """Return why a model isn't ViT's, naming the keys; None where it is."""
    found = SUPPORTED.problems(config.model)
    if config.image_classification.pooling != "class":
        found.append(f"image_classification.pooling={config.image_classification.pooling}")
    return f"ViT has no {', '.join(found)}" if found else None


def write(trained: TrainedSingle, folder: Path) -> list[str]:
    """Write a ViT directory; return notes."""
    form, model = trained.form, trained.config.model
    assert form is not None
    side, (channels, height, width) = trained.config.image_classification.patch, form.shape
    content = {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        **their_keys(model, _KEYS),
        "image_size": (height, width),
        "patch_size": side,
        "num_channels": channels,
        "qkv_bias": model.attention_bias,
        "dtype": "float32",
        **label_keys(trained.labels),
    }
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
    rows = _table(model, form.shape, side, biased=model.attention_bias)
    write_model(trained, folder, content, their_tensors(rows, trained.parameter))
    write_text(folder / _PROCESSOR, as_json(processor))
    return [f"ViTForImageClassification and ViTImageProcessor, for pixels from 0 to {form.full}"]

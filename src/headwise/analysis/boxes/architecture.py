"""The whole model as boxes: shapes, parameters and operations of each, and the size of this sentence's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.analysis.boxes.places import Place, places
from headwise.analysis.boxes.recording import Recorded
from headwise.analysis.boxes.steps import Floats, floats
from headwise.models.counting import attention_flops, feed_forward_flops, projection_flops
from headwise.models.transformer import Transformer
from headwise.nn.attention import attention_kind, attention_weights
from headwise.nn.multihead import MultiHeadAttention


@dataclass(frozen=True)
class BoxSize:
    """One box of the model with this sentence.

    Attributes:
        name, title, kind, stack, layer: as in `Place`.
        part: the name under which it is counted.
        shape: of what it hands on, (tokens, features).
        parameters: its own; parameters shared by several boxes count for the first of them only.
        shared: whether it also uses parameters that count for another box.
        flops: operations of its matrix products for this sentence (`headwise.models.counting`); None if unknown.
        sizes: root mean square of what it hands on, for each token; for `softmax` the probability of each token.
    """

    name: str
    title: str
    kind: str
    stack: str
    layer: int | None
    part: str
    shape: tuple[int, int]
    parameters: int
    shared: bool
    flops: int | None
    sizes: Floats


@dataclass(frozen=True)
class Part:
    """The parameters and operations of all boxes that are counted under one name."""

    name: str
    parameters: int
    flops: int | None


@dataclass(frozen=True)
class Architecture:
    """All boxes in the order of the computation, and their sums by part, largest first.

    `norm` is post or pre; `options` are the model's variants in words; `pieces` are the tokens that each stack reads.
    """

    norm: str
    options: tuple[str, ...]
    pieces: dict[str, tuple[str, ...]]
    boxes: tuple[BoxSize, ...]
    parts: tuple[Part, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields; `sizes` stay arrays."""
        return asdict(self)


def architecture(recorded: Recorded) -> Architecture:
    """Return the model's boxes with the sizes of a recorded sentence."""
    model = recorded.model
    counted: set[int] = set()
    n, m = (len(recorded.sides[stack].ids) for stack in ("encoder", "decoder"))
    boxes = []
    for place in places(model):
        own = _parameters(model, place)
        new = [parameter for parameter in own if id(parameter) not in counted]
        counted |= {id(parameter) for parameter in own}
        values = _output(recorded, place)
        boxes.append(
            BoxSize(
                place.name,
                place.title,
                place.kind,
                place.stack,
                place.layer,
                place.part,
                _shape(recorded, place),
                sum(parameter.numel() for parameter in new),
                len(new) < len(own),
                _flops(model, place, n, m),
                floats(values),
            )
        )
    pieces = {stack: side.pieces for stack, side in recorded.sides.items()}
    return Architecture(model.config.norm, _options(model), {**pieces}, tuple(boxes), _parts(boxes))


def _parameters(model: Transformer, place: Place) -> list[nn.Parameter]:
    """Return the parameters that a box uses; those of all boxes are all of the model."""
    if place.kind == "embedding":
        embedding = model.source_embedding if place.stack == "encoder" else model.target_embedding
        return list(embedding.parameters())
    if place.kind == "positions":
        return list(model.positions.parameters())
    if place.kind == "projection":
        own = {id(model.output_weight), id(model.output_bias)}
        return [parameter for parameter in model.parameters() if id(parameter) in own]
    if place.kind in ("add-norm", "norm"):
        return list(model.get_submodule(place.norm).parameters())
    if place.kind in ("attention", "feed-forward"):
        return list(model.get_submodule(place.module).parameters())
    return []


def _flops(model: Transformer, place: Place, n: int, m: int) -> int | None:
    """Return the operations for n source and m target tokens; None for attention without a formula."""
    if place.kind == "projection":
        return projection_flops(model.config, model.target_size, m)
    tokens = n if place.stack == "encoder" else m
    if place.kind == "feed-forward":
        return feed_forward_flops(model.config, tokens)
    if place.kind != "attention":
        return 0
    module = model.get_submodule(place.module)
    if not isinstance(module, MultiHeadAttention):
        return None
    if attention_kind(module.kind).weights is not attention_weights:
        return None
    return attention_flops(model.config, tokens, n if place.module.endswith("cross_attention") else tokens)


def _output(recorded: Recorded, place: Place) -> Tensor:
    if place.kind == "softmax":
        tokens = torch.tensor(recorded.target.ids)[:, None]
        return recorded.logits.softmax(-1).gather(1, tokens)[:, 0]
    if place.kind == "projection":
        values = recorded.logits
    elif place.kind == "embedding":
        values = recorded.embedded(place.stack).given * recorded.model.positions.scale
    elif place.kind == "positions":
        values = recorded.embedded(place.stack).returned
    elif place.kind in ("attention", "feed-forward"):
        values = recorded.written(place)
    elif place.kind == "add":
        values = recorded.added(place)
    else:
        values = recorded.call(place.norm).returned
    return values.square().mean(-1).sqrt()


def _shape(recorded: Recorded, place: Place) -> tuple[int, int]:
    tokens = len(recorded.sides[place.stack].ids)
    ends = place.kind in ("projection", "softmax")
    return tokens, recorded.model.target_size if ends else recorded.model.config.d_model


def _parts(boxes: Sequence[BoxSize]) -> tuple[Part, ...]:
    """Sum the boxes by part; operations are None for all parts if they are for one."""
    flops: dict[str, int] = {}
    parameters: dict[str, int] = {}
    for box in boxes:
        parameters[box.part] = parameters.get(box.part, 0) + box.parameters
        flops[box.part] = flops.get(box.part, 0) + (box.flops or 0)
    known = all(box.flops is not None for box in boxes)
    parts = [Part(name, parameters[name], flops[name] if known else None) for name in parameters]
    kept = [part for part in parts if part.parameters or part.flops]
    return tuple(sorted(kept, key=lambda part: -part.parameters))


def _options(model: Transformer) -> tuple[str, ...]:
    config = model.config
    groups = config.key_value_heads or config.heads
    shared = {"all": "three", "target": "two"}.get(config.share_embeddings)
    return (
        f"{config.norm}-norm ({'LayerNorm' if config.normalization == 'layer' else 'RMSNorm'})",
        f"{config.encoder_layers} + {config.decoder_layers} layers",
        f"d_model {config.d_model}",
        f"{config.heads} heads of {config.key_size}"
        + f", {groups} for keys and values" * (groups < config.heads),
        f"d_ff {config.d_ff}, {config.activation}" + ", gated" * config.gated,
        f"{config.positions} positions",
        f"{config.attention} attention",
        "separate embeddings" if shared is None else f"embeddings shared {shared} ways",
    )

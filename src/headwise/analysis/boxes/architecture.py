"""The whole model as boxes: shapes, parameters and operations of each, the size of this sentence's tensors, and the
computation of one box for a chosen token and layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.analysis.boxes.attention import attention_steps
from headwise.analysis.boxes.inputs import embedding_steps, patch_steps, position_steps
from headwise.analysis.boxes.layers import add_norm_steps, add_steps, feed_forward_steps, norm_steps
from headwise.analysis.boxes.outputs import head_steps, pooling_steps, projection_steps, softmax_steps
from headwise.analysis.boxes.steps import Box, Floats, Step, floats
from headwise.analysis.boxes.structure import BoxPlace, Kind, Structure, find_place, places
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.analysis.head_arithmetic import has_products
from headwise.analysis.recording import ForwardPass
from headwise.errors import ConfigError
from headwise.models.counting import attention_flops, feed_forward_flops, projection_flops


@dataclass(frozen=True)
class BoxSize:
    """One box of the model with this sentence.

    Attributes:
        name, title, kind, stack, layer, row: as in `BoxPlace`.
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
    row: str
    layer: int | None
    part: str
    shape: tuple[int, int]
    parameters: int
    shared: bool
    flops: int | None
    sizes: Floats


@dataclass(frozen=True)
class PartSize:
    """The parameters and operations of all boxes that are counted under one name."""

    name: str
    parameters: int
    flops: int | None


@dataclass(frozen=True)
class Architecture:
    """All boxes in the order of the computation, and their sums by part, largest first.

    `norm` is post or pre; `options` are the model's variants in words; `pieces` are what the rows of boxes are: the
    tokens that each stack reads, and `pooled` for one vector of a whole image.
    """

    norm: str
    options: tuple[str, ...]
    pieces: dict[str, tuple[str, ...]]
    boxes: tuple[BoxSize, ...]
    parts: tuple[PartSize, ...]


def architecture(forward: ForwardPass) -> Architecture:
    """Return the model's boxes with the sizes of a recorded text; raises `ConfigError` for a model without boxes."""
    recorded = BoxTensors(forward)
    structure = recorded.structure
    counted: set[int] = set()
    boxes = []
    for place in places(structure):
        own = _parameters(structure, place)
        new = [parameter for parameter in own if id(parameter) not in counted]
        counted |= {id(parameter) for parameter in own}
        boxes.append(
            BoxSize(
                place.name,
                place.title,
                place.kind,
                place.stack,
                place.row,
                place.layer,
                place.part,
                _shape(recorded, place),
                sum(parameter.numel() for parameter in new),
                len(new) < len(own),
                _flops(recorded, place),
                floats(_output(recorded, place)),
            )
        )
    pieces = {row: side.pieces for row, side in forward.sides.items()}
    return Architecture(structure.config.norm, _options(structure), {**pieces}, tuple(boxes), _parts(boxes))


def _parameters(structure: Structure, place: BoxPlace) -> list[nn.Parameter]:
    """Return the parameters that a box uses; those of all boxes are all of the model."""
    model, modules = structure.model, place.modules
    if place.kind == "projection":
        own = {id(structure.output_weight), id(structure.output_bias)}
        return [parameter for parameter in model.parameters() if id(parameter) in own]
    if place.kind in ("add-norm", "norm"):
        return list(model.get_submodule(place.norm).parameters())
    if place.kind in ("attention", "feed-forward"):
        return list(model.get_submodule(place.module).parameters())
    if place.kind == "positions":
        return list(model.get_submodule(modules.positions).parameters())
    if place.kind in ("embedding", "patches"):
        vision = structure.vision
        first = [] if vision is None or vision.class_token is None else [vision.class_token]
        return [*first, *model.get_submodule(modules.embedding).parameters()]
    if place.kind == "head":
        head = structure.masked_head
        assert head is not None
        return [*head.dense.parameters(), *head.norm.parameters()]
    return []


def _flops(recorded: BoxTensors, place: BoxPlace) -> int | None:
    """Return the operations for the recorded text; None for attention without a formula."""
    structure, tokens = recorded.structure, len(recorded.forward.sides[place.row].pieces)
    config = structure.config
    if place.kind == "projection":
        return projection_flops(config, structure.size, tokens)
    if place.kind == "head":
        return projection_flops(config, config.d_model, tokens)
    if place.kind == "patches":
        weight = structure.model.get_submodule(place.modules.embedding).weight
        assert isinstance(weight, Tensor)
        patches = len(recorded.call(place.modules.embedding).given)
        return 2 * patches * weight.numel()
    if place.kind == "feed-forward":
        return feed_forward_flops(config, tokens)
    if place.kind != "attention":
        return 0
    module = structure.model.get_submodule(place.module)
    if not has_products(module):
        return None
    return attention_flops(config, tokens, len(recorded.forward.sides[place.reads].pieces))


def _output(recorded: BoxTensors, place: BoxPlace) -> Tensor:
    forward = recorded.forward
    if place.kind == "softmax":
        return recorded.logits.softmax(-1).gather(1, torch.tensor(forward.chosen.ids)[:, None])[:, 0]
    if place.kind == "projection":
        values = recorded.logits
    elif place.kind in ("embedding", "patches"):
        scale = recorded.structure.input_embedding(place.modules).scale
        values = recorded.embedded(place.modules).given * scale
    elif place.kind == "positions":
        values = recorded.embedded(place.modules).returned
    elif place.kind in ("attention", "feed-forward"):
        values = recorded.written(place)
    elif place.kind == "add":
        values = recorded.added(place)
    elif place.kind in ("pooling", "head"):
        values = recorded.hidden
    else:
        values = recorded.call(place.norm).returned
    return values.square().mean(-1).sqrt()


def _shape(recorded: BoxTensors, place: BoxPlace) -> tuple[int, int]:
    ends = place.kind in ("projection", "softmax")
    structure = recorded.structure
    return len(recorded.forward.sides[place.row].pieces), structure.size if ends else structure.config.d_model


def _parts(boxes: Sequence[BoxSize]) -> tuple[PartSize, ...]:
    """Sum the boxes by part; operations are None for all parts if they are for one."""
    flops: dict[str, int] = {}
    parameters: dict[str, int] = {}
    for box in boxes:
        parameters[box.part] = parameters.get(box.part, 0) + box.parameters
        flops[box.part] = flops.get(box.part, 0) + (box.flops or 0)
    known = all(box.flops is not None for box in boxes)
    parts = [PartSize(name, parameters[name], flops[name] if known else None) for name in parameters]
    kept = [part for part in parts if part.parameters or part.flops]
    return tuple(sorted(kept, key=lambda part: -part.parameters))


def _options(structure: Structure) -> tuple[str, ...]:
    config, stacks = structure.config, structure.stacks
    groups = config.groups
    layers = " + ".join(str(structure.layers(stack)) for stack in stacks)
    return (
        f"{config.norm}-norm ({'LayerNorm' if config.normalization == 'layer' else 'RMSNorm'})",
        f"{layers} layer" + "s" * (layers != "1"),
        f"d_model {config.d_model}",
        f"{config.heads} heads of {config.key_size}" + f", {groups} for keys and values" * (groups < config.heads),
        f"d_ff {config.d_ff}, {config.activation}" + ", gated" * config.gated,
        f"{config.positions} positions",
        f"{config.attention} attention",
        _embeddings(structure),
    )


def _embeddings(structure: Structure) -> str:
    """Say how the embeddings are shared; for images, the patches."""
    vision = structure.vision
    if vision is not None:
        rows, columns = vision.grid
        token = "no class token" if vision.class_token is None else "a class token"
        return f"{rows} × {columns} patches of {vision.side} × {vision.side} pixels, {token}"
    return {
        "all": "embeddings shared three ways",
        "target": "embeddings shared two ways",
        "one": "embeddings shared with the projection",
        "none": "separate embeddings",
    }[structure.sharing]


def architecture_lines(found: Architecture) -> list[str]:
    """Return the lines that `headwise explain --boxes` prints: the boxes by layer, then their sums by part."""
    total = sum(part.parameters for part in found.parts)
    operations = None if any(box.flops is None for box in found.boxes) else sum(box.flops or 0 for box in found.boxes)
    lines = [", ".join(found.options), ""]
    lines.append(f"{'box':<36}{'layer':>6}{'shape':>14}{'parameters':>14}{'FLOPs':>16}")
    for box in found.boxes:
        layer = "" if box.layer is None else str(box.layer + 1)
        shape = "{} × {:,}".format(*box.shape)
        lines.append(f"{box.name:<36}{layer:>6}{shape:>14}{_own_parameters(box):>14}{_count(box.flops):>16}")
    lines += ["", f"{'part':<36}{'parameters':>20}{'FLOPs, this sentence':>28}"]
    for part in found.parts:
        lines.append(f"{part.name:<36}{_share(part.parameters, total):>20}{_share(part.flops, operations):>28}")
    return [*lines, f"{'sum':<36}{_share(total, total):>20}{_share(operations, operations):>28}"]


def _own_parameters(box: BoxSize) -> str:
    return f"{box.parameters:,}" if box.parameters or not box.shared else "shared"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _share(number: int | None, total: int | None) -> str:
    if number is None or total is None:
        return "not known"
    return f"{number:,} {number / max(1, total):>7.1%}"


def box_of(
    forward: ForwardPass, name: str, layer: int | None = None, position: int = 0, *, temperature: float = 1.0
) -> Box:
    """Compute one box of a recorded forward pass.

    `layer` and `position` count from 0; `temperature` acts in the box `softmax` only. Raises `ConfigError` for a box,
    layer or position that doesn't exist, and for a model that isn't a Transformer.
    """
    recorded = BoxTensors(forward)
    place = find_place(recorded.structure, name, layer)
    pieces = forward.sides[place.row].pieces
    if not 0 <= position < len(pieces):
        raise ConfigError(f"position: expected a number from 1 to {len(pieces)}, found {position + 1}")
    if place.kind == "softmax":
        steps = softmax_steps(recorded, place, position, temperature)
    else:
        steps = _STEPS[place.kind](recorded, place, position)
    return Box(place.name, place.title, place.layer, position, pieces, tuple(steps))


_STEPS: dict[Kind, Callable[[BoxTensors, BoxPlace, int], Sequence[Step]]] = {
    "embedding": embedding_steps,
    "patches": patch_steps,
    "positions": position_steps,
    "attention": attention_steps,
    "feed-forward": feed_forward_steps,
    "add-norm": add_norm_steps,
    "norm": norm_steps,
    "add": add_steps,
    "pooling": pooling_steps,
    "head": head_steps,
    "projection": projection_steps,
}

"""The boxes of a Transformer: their names, and the modules that compute them.

The names are those of the paper's figure 1: `encoder.embedding`, `encoder.positions`, `encoder.self-attention`,
`encoder.feed-forward`, `decoder.cross-attention`, `projection`, `softmax` and so on. Post-norm (section 3.1) has
`….add-norm` after each sub-layer. Pre-norm has `….norm` before it, `….add` after it, and `encoder.norm` and
`decoder.norm` at the end of the stacks.

A model of one text has the boxes of one stack; a masked language model has `head` before its projection. A classifier
of images begins with `encoder.patches` and ends with `pooling`, `classifier` and `softmax`, which have one vector for
the whole image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from headwise.analysis.boxes.structure import Row, Stack, StackModules, Structure
from headwise.errors import ConfigError

Kind = Literal[
    "embedding",
    "patches",
    "positions",
    "attention",
    "feed-forward",
    "add-norm",
    "norm",
    "add",
    "pooling",
    "head",
    "projection",
    "softmax",
]

_TITLES = {
    "self-attention": "self-attention",
    "cross-attention": "cross-attention",
    "feed-forward": "feed-forward network",
}


@dataclass(frozen=True)
class Place:
    """A box of the model.

    Attributes:
        name: as in this module's description.
        kind: the kind of its computation.
        modules: those of the stack that it belongs to.
        layer: counted from 0; None outside the layers.
        sub_layer: index in `modules.sub_layers` of the sub-layer that it is, or that it surrounds.
        part: the name under which its parameters and operations are counted.
        pooled: whether it has one vector for all tokens.
    """

    name: str
    kind: Kind
    modules: StackModules
    layer: int | None = None
    sub_layer: int | None = None
    part: str = ""
    pooled: bool = False

    @property
    def stack(self) -> Stack:
        """The stack that it belongs to."""
        return self.modules.name

    @property
    def row(self) -> Row:
        """What its rows are."""
        return "pooled" if self.pooled else self.stack

    @property
    def title(self) -> str:
        """The name in words."""
        layer = "" if self.layer is None else f" layer {self.layer + 1}"
        stack = self.stack.capitalize()
        if self.sub_layer is None:
            words = {
                "embedding": f"{stack} embedding",
                "patches": "Embedding of the patches",
                "positions": f"{stack} positional encoding",
                "norm": f"{stack} final normalization",
                "pooling": "Pooling",
                "head": "Prediction head",
                "projection": "Classifier" if self.pooled else "Output projection",
                "softmax": f"Softmax over the {'classes' if self.pooled else 'vocabulary'}",
            }
            return words[self.kind]
        sub_layer = _TITLES[self.modules.sub_layers[self.sub_layer][0]]
        what = {
            "add-norm": f"Add & Norm after the {sub_layer}",
            "norm": f"normalization before the {sub_layer}",
            "add": f"addition after the {sub_layer}",
        }
        return f"{stack}{layer}, {what.get(self.kind, sub_layer)}"

    @property
    def module(self) -> str:
        """The dotted name of the sub-layer's module."""
        assert self.sub_layer is not None
        return f"{self.of_layer}.{self.modules.sub_layers[self.sub_layer][1]}"

    @property
    def around(self) -> str:
        """The dotted name of the residual connection around the sub-layer."""
        assert self.sub_layer is not None
        return f"{self.of_layer}.{self.modules.sub_layers[self.sub_layer][2]}"

    @property
    def norm(self) -> str:
        """The dotted name of the normalization around the sub-layer, or at the end of the stack."""
        return self.modules.norm if self.sub_layer is None else f"{self.around}.norm"

    @property
    def of_layer(self) -> str:
        """The dotted name of its layer."""
        return f"{self.modules.layers}.{self.layer}"


def places(structure: Structure) -> list[Place]:
    """Return the boxes in the order of the computation."""
    found: list[Place] = []
    for modules in structure.stacks:
        name = modules.name
        first = Place(f"{name}.embedding", "embedding", modules, part="embeddings")
        if structure.vision is not None:
            first = Place(f"{name}.patches", "patches", modules, part="patches")
        found += [first, Place(f"{name}.positions", "positions", modules, part="positions")]
        for layer in range(structure.layers(modules)):
            for index in range(len(modules.sub_layers)):
                found += _around(modules, layer, index, pre=structure.config.norm == "pre")
        if not isinstance(structure.model.get_submodule(modules.norm), nn.Identity):
            found.append(Place(f"{name}.norm", "norm", modules, part="normalization"))
    return [*found, *_ends(structure)]


def _ends(structure: Structure) -> list[Place]:
    """Return the boxes after the last layer."""
    last, pooled = structure.stacks[-1], structure.vision is not None
    name, part = ("classifier", "classifier") if pooled else ("projection", "output projection")
    found = [
        Place(name, "projection", last, part=part, pooled=pooled),
        Place("softmax", "softmax", last, part="softmax", pooled=pooled),
    ]
    if pooled:
        return [Place("pooling", "pooling", last, part="pooling", pooled=True), *found]
    if structure.masked_head is not None:
        return [Place("head", "head", last, part="prediction head"), *found]
    return found


def _around(modules: StackModules, layer: int, index: int, *, pre: bool) -> list[Place]:
    sub_layer = modules.sub_layers[index][0]
    name, kind = (
        f"{modules.name}.{sub_layer}",
        "feed-forward" if sub_layer == "feed-forward" else "attention",
    )
    part = f"{modules.name} {_TITLES[sub_layer]}" + ("s" if kind == "feed-forward" else "")
    box = Place(name, kind, modules, layer, index, part)
    if pre:
        return [
            Place(f"{name}.norm", "norm", modules, layer, index, "normalization"),
            box,
            Place(f"{name}.add", "add", modules, layer, index, "residual connections"),
        ]
    return [box, Place(f"{name}.add-norm", "add-norm", modules, layer, index, "normalization")]


def find_place(structure: Structure, name: str, layer: int | None) -> Place:
    """Return the box of a name and a layer (from 0; the first one if None).

    Raises `ConfigError` for a name or a layer that the model doesn't have.
    """
    named = [place for place in places(structure) if place.name == name]
    if not named:
        _refuse_other_norm(structure, name)
        known = ", ".join(dict.fromkeys(place.name for place in places(structure)))
        raise ConfigError(f"box: expected one of this model's ({known}), found {name[:60]!r}")
    if named[0].layer is None:
        if layer is not None:
            raise ConfigError(
                f"layer: expected none for {name}, which is outside the layers, found {layer + 1}"
            )
        return named[0]
    if not 0 <= (layer or 0) < len(named):
        raise ConfigError(f"layer: expected a number from 1 to {len(named)}, found {(layer or 0) + 1}")
    return named[layer or 0]


def _refuse_other_norm(structure: Structure, name: str) -> None:
    """Raise `ConfigError` for a box that only a model with the other place of the normalization has."""
    sub_layer, _, box = name.rpartition(".")
    if sub_layer not in {place.name for place in places(structure)} or box not in ("norm", "add", "add-norm"):
        return
    norm = structure.config.norm
    own = f"{sub_layer}.norm and {sub_layer}.add" if norm == "pre" else f"{sub_layer}.add-norm"
    raise ConfigError(f"box: expected {own}, as this model is {norm}-norm, found {name!r}")

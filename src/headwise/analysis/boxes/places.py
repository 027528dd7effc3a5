"""The boxes of a Transformer: their names, and the modules that compute them.

The names are those of the paper's figure 1: `encoder.embedding`, `encoder.positions`, `encoder.self-attention`,
`encoder.feed-forward`, `decoder.cross-attention`, `projection`, `softmax` and so on. Post-norm (section 3.1) has
`….add-norm` after each sub-layer. Pre-norm has `….norm` before it, `….add` after it, and `encoder.norm` and
`decoder.norm` at the end of the stacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.transformer import Transformer

Stack = Literal["encoder", "decoder"]
Kind = Literal[
    "embedding", "positions", "attention", "feed-forward", "add-norm", "norm", "add", "projection", "softmax"
]

# The sub-layers of a layer in their order: name, module, and the module of the residual connection around it.
SUB_LAYERS: dict[Stack, tuple[tuple[str, str, str], ...]] = {
    "encoder": (
        ("self-attention", "self_attention", "around_attention"),
        ("feed-forward", "feed_forward", "around_feed_forward"),
    ),
    "decoder": (
        ("self-attention", "self_attention", "around_self_attention"),
        ("cross-attention", "cross_attention", "around_cross_attention"),
        ("feed-forward", "feed_forward", "around_feed_forward"),
    ),
}
_TITLES = {
    "self-attention": "self-attention",
    "cross-attention": "cross-attention",
    "feed-forward": "feed-forward network",
}
STACKS: tuple[Stack, ...] = ("encoder", "decoder")


@dataclass(frozen=True)
class Place:
    """A box of the model.

    Attributes:
        name: as in this module's description.
        kind: the kind of its computation.
        stack: that it belongs to.
        layer: counted from 0; None outside the layers.
        sub_layer: index in `SUB_LAYERS` of the sub-layer that it is, or that it surrounds.
        part: the name under which its parameters and operations are counted.
    """

    name: str
    kind: Kind
    stack: Stack
    layer: int | None = None
    sub_layer: int | None = None
    part: str = ""

    @property
    def title(self) -> str:
        """The name in words."""
        layer = "" if self.layer is None else f" layer {self.layer + 1}"
        stack = self.stack.capitalize()
        if self.sub_layer is None:
            words = {
                "embedding": f"{stack} embedding",
                "positions": f"{stack} positional encoding",
                "norm": f"{stack} final normalization",
                "projection": "Output projection",
                "softmax": "Softmax over the vocabulary",
            }
            return words[self.kind]
        sub_layer = _TITLES[SUB_LAYERS[self.stack][self.sub_layer][0]]
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
        return f"{self.stack}.{self.layer}.{SUB_LAYERS[self.stack][self.sub_layer][1]}"

    @property
    def norm(self) -> str:
        """The dotted name of the normalization around the sub-layer, or at the end of the stack."""
        if self.sub_layer is None:
            return f"{self.stack}_norm"
        return f"{self.stack}.{self.layer}.{SUB_LAYERS[self.stack][self.sub_layer][2]}.norm"


def transformer(model: Seq2Seq) -> Transformer:
    """Return the model; raises `ConfigError` for another architecture."""
    if not isinstance(model, Transformer):
        found = type(model).__name__.removesuffix("Seq2Seq").lower()
        raise ConfigError(f"box: expected a Transformer, found a {found} model")
    return model


def places(model: Transformer) -> list[Place]:
    """Return the boxes in the order of the computation."""
    found: list[Place] = []
    for stack in STACKS:
        found += [
            Place(f"{stack}.embedding", "embedding", stack, part="embeddings"),
            Place(f"{stack}.positions", "positions", stack, part="positions"),
        ]
        for layer in range(len(model.encoder if stack == "encoder" else model.decoder)):
            for index in range(len(SUB_LAYERS[stack])):
                found += _around(stack, layer, index, pre=model.config.norm == "pre")
        final = model.encoder_norm if stack == "encoder" else model.decoder_norm
        if not isinstance(final, nn.Identity):
            found.append(Place(f"{stack}.norm", "norm", stack, part="normalization"))
    return [
        *found,
        Place("projection", "projection", "decoder", part="output projection"),
        Place("softmax", "softmax", "decoder", part="softmax"),
    ]


def _around(stack: Stack, layer: int, index: int, *, pre: bool) -> list[Place]:
    sub_layer = SUB_LAYERS[stack][index][0]
    name, kind = f"{stack}.{sub_layer}", "feed-forward" if sub_layer == "feed-forward" else "attention"
    part = f"{stack} {_TITLES[sub_layer]}" + ("s" if kind == "feed-forward" else "")
    box = Place(name, kind, stack, layer, index, part)
    if pre:
        return [
            Place(f"{name}.norm", "norm", stack, layer, index, "normalization"),
            box,
            Place(f"{name}.add", "add", stack, layer, index, "residual connections"),
        ]
    return [box, Place(f"{name}.add-norm", "add-norm", stack, layer, index, "normalization")]


def find_place(model: Transformer, name: str, layer: int | None) -> Place:
    """Return the box of a name and a layer (from 0; the first one if None).

    Raises `ConfigError` for a name or a layer that the model doesn't have.
    """
    named = [place for place in places(model) if place.name == name]
    if not named:
        _refuse_other_norm(model, name)
        known = ", ".join(dict.fromkeys(place.name for place in places(model)))
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


def _refuse_other_norm(model: Transformer, name: str) -> None:
    """Raise `ConfigError` for a box that only a model with the other place of the normalization has."""
    sub_layer, _, box = name.rpartition(".")
    if sub_layer not in {place.name for place in places(model)} or box not in ("norm", "add", "add-norm"):
        return
    own = f"{sub_layer}.norm and {sub_layer}.add" if model.config.norm == "pre" else f"{sub_layer}.add-norm"
    raise ConfigError(f"box: expected {own}, as this model is {model.config.norm}-norm, found {name!r}")

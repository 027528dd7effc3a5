"""The boxes of a Transformer: the stacks of layers that they name, and the modules that compute them.

A structure says which modules compute the boxes of an encoder-decoder, a decoder-only model (GPT), an encoder-only
masked language model (BERT), or an image classifier (ViT).

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

from torch import Tensor, nn

from headwise.analysis.recording import Row, Stack
from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.base import Projecting
from headwise.models.decoder_only import DecoderOnly
from headwise.models.output_heads import HeadedEncoder, MaskedTokenHead
from headwise.models.transformer import InputEmbedding, Transformer
from headwise.models.vision import ImageClassifier, VisionTransformer

# The sub-layers of a layer in their order: name, module, and the module of the residual connection around it.
SubLayers = tuple[tuple[str, str, str], ...]
SELF_ATTENDING: SubLayers = (
    ("self-attention", "self_attention", "around_attention"),
    ("feed-forward", "feed_forward", "around_feed_forward"),
)
CROSS_ATTENDING: SubLayers = (
    ("self-attention", "self_attention", "around_self_attention"),
    ("cross-attention", "cross_attention", "around_cross_attention"),
    ("feed-forward", "feed_forward", "around_feed_forward"),
)


@dataclass(frozen=True)
class StackModules:
    """The modules of one stack by their dotted names.

    Attributes:
        name: of the stack.
        embedding: the embedding of tokens, or the linear map of patches.
        positions: the input embedding, which scales and adds positions.
        layers: the list of layers.
        norm: the normalization after the last layer, which may be the identity.
        sub_layers: those of a layer.
    """

    name: Stack
    embedding: str
    positions: str
    layers: str
    norm: str
    sub_layers: SubLayers = SELF_ATTENDING


@dataclass(frozen=True)
class Structure:
    """A Transformer with its stacks.

    Attributes:
        model: the model, for its parameters.
        config: of the model.
        stacks: in the order of the computation.
        size: number of tokens, or classes, that the last box chooses from.
    """

    model: nn.Module
    config: ModelConfig
    stacks: tuple[StackModules, ...]
    size: int

    @property
    def vision(self) -> VisionTransformer | None:
        """The encoder of images, for a model of images."""
        return self.model.vision if isinstance(self.model, ImageClassifier) else None

    @property
    def masked_head(self) -> MaskedTokenHead | None:
        """The head of a masked language model."""
        head = self.model.head if isinstance(self.model, HeadedEncoder) else None
        return head if isinstance(head, MaskedTokenHead) else None

    @property
    def output_weight(self) -> Tensor:
        """Weight of the last linear map, (size, d_model)."""
        if isinstance(self.model, HeadedEncoder):
            return self.model.encoder.embedding.weight
        assert isinstance(self.model, Projecting | ImageClassifier)
        return self.model.output_weight if isinstance(self.model, Projecting) else self.model.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        """Bias of the last linear map, (size,), if it has one."""
        if isinstance(self.model, HeadedEncoder):
            return self.masked_head.bias if self.masked_head is not None else None
        assert isinstance(self.model, Projecting | ImageClassifier)
        return self.model.output_bias if isinstance(self.model, Projecting) else self.model.output.bias

    @property
    def output_owner(self) -> str:
        """What the rows of the last linear map are."""
        if self.vision is not None:
            return "the classifier's matrix"
        owners = {"none": "a matrix of its own", "target": "the decoder's embedding table"}
        return owners.get(self.sharing, "the embedding table")

    @property
    def sharing(self) -> Literal["all", "target", "one", "none"]:
        """Which embeddings the output projection shares: all, the decoder's, those of the only stack, or none."""
        shared = self.config.share_embeddings
        if len(self.stacks) > 1:
            return shared
        return "none" if shared == "none" and self.masked_head is None else "one"

    def stack(self, name: Stack) -> StackModules:
        """Return a stack by its name."""
        return next(stack for stack in self.stacks if stack.name == name)

    def layers(self, stack: StackModules) -> int:
        """Return the number of a stack's layers."""
        layers = self.model.get_submodule(stack.layers)
        assert isinstance(layers, nn.ModuleList)
        return len(layers)

    def input_embedding(self, stack: StackModules) -> InputEmbedding:
        """Return the module that scales the embeddings and adds positions."""
        module = self.model.get_submodule(stack.positions)
        assert isinstance(module, InputEmbedding)
        return module


def structure_of(model: nn.Module) -> Structure:
    """Return the structure of a model; raises `ConfigError` for one that has no boxes."""
    if isinstance(model, Transformer):
        encoder = StackModules("encoder", "source_embedding", "positions", "encoder", "encoder_norm")
        embedding = "target_embedding" if model.config.share_embeddings != "all" else "source_embedding"
        decoder = StackModules("decoder", embedding, "positions", "decoder", "decoder_norm", CROSS_ATTENDING)
        return Structure(model, model.config, (encoder, decoder), model.target_size)
    if isinstance(model, DecoderOnly):
        stack = StackModules("decoder", "embedding", "positions", "layers", "norm")
        return Structure(model, model.config, (stack,), model.size)
    if isinstance(model, HeadedEncoder) and isinstance(model.head, MaskedTokenHead):
        encoder = model.encoder
        return Structure(model, encoder.config, (_encoder("encoder", "embedding"),), encoder.size)
    if isinstance(model, ImageClassifier):
        return Structure(model, model.vision.config, (_encoder("vision", "patch"),), model.output.out_features)
    found = type(model).__name__.removesuffix("Seq2Seq").lower()
    raise ConfigError(f"box: expected a Transformer, found a {found} model")


def _encoder(prefix: str, embedding: str) -> StackModules:
    """Return the stack of an `Encoder` in a model of one text or of images."""
    inside = f"{prefix}.encoder"
    return StackModules("encoder", f"{prefix}.{embedding}", f"{prefix}.positions", f"{inside}.layers", f"{inside}.norm")


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
class BoxPlace:
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
    def reads(self) -> Stack:
        """The stack whose tokens are the keys of the attention that it is."""
        return "encoder" if self.module.endswith("cross_attention") else self.stack

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


def places(structure: Structure) -> list[BoxPlace]:
    """Return the boxes in the order of the computation."""
    found: list[BoxPlace] = []
    for modules in structure.stacks:
        name = modules.name
        first = BoxPlace(f"{name}.embedding", "embedding", modules, part="embeddings")
        if structure.vision is not None:
            first = BoxPlace(f"{name}.patches", "patches", modules, part="patches")
        found += [first, BoxPlace(f"{name}.positions", "positions", modules, part="positions")]
        for layer in range(structure.layers(modules)):
            for index in range(len(modules.sub_layers)):
                found += _around(modules, layer, index, pre=structure.config.norm == "pre")
        if not isinstance(structure.model.get_submodule(modules.norm), nn.Identity):
            found.append(BoxPlace(f"{name}.norm", "norm", modules, part="normalization"))
    return [*found, *_ends(structure)]


def _ends(structure: Structure) -> list[BoxPlace]:
    """Return the boxes after the last layer."""
    last, pooled = structure.stacks[-1], structure.vision is not None
    name, part = ("classifier", "classifier") if pooled else ("projection", "output projection")
    found = [
        BoxPlace(name, "projection", last, part=part, pooled=pooled),
        BoxPlace("softmax", "softmax", last, part="softmax", pooled=pooled),
    ]
    if pooled:
        return [BoxPlace("pooling", "pooling", last, part="pooling", pooled=True), *found]
    if structure.masked_head is not None:
        return [BoxPlace("head", "head", last, part="prediction head"), *found]
    return found


def _around(modules: StackModules, layer: int, index: int, *, pre: bool) -> list[BoxPlace]:
    sub_layer = modules.sub_layers[index][0]
    name, kind = (
        f"{modules.name}.{sub_layer}",
        "feed-forward" if sub_layer == "feed-forward" else "attention",
    )
    part = f"{modules.name} {_TITLES[sub_layer]}" + ("s" if kind == "feed-forward" else "")
    box = BoxPlace(name, kind, modules, layer, index, part)
    if pre:
        return [
            BoxPlace(f"{name}.norm", "norm", modules, layer, index, "normalization"),
            box,
            BoxPlace(f"{name}.add", "add", modules, layer, index, "residual connections"),
        ]
    return [box, BoxPlace(f"{name}.add-norm", "add-norm", modules, layer, index, "normalization")]


def find_place(structure: Structure, name: str, layer: int | None) -> BoxPlace:
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
            raise ConfigError(f"layer: expected none for {name}, which is outside the layers, found {layer + 1}")
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

"""The parts of a Transformer that its boxes name: the stacks of layers, and what follows the last of them.

A structure says which modules compute the boxes of an encoder-decoder, a decoder-only model (GPT), an encoder-only
masked language model (BERT), or an image classifier (ViT).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.base import Projecting
from headwise.models.decoder_only import DecoderOnly
from headwise.models.output_heads import HeadedEncoder, MaskedTokenHead
from headwise.models.transformer import InputEmbedding, Transformer
from headwise.models.vision import ImageClassifier, VisionTransformer

Stack = Literal["encoder", "decoder"]
Row = Literal[
    "encoder", "decoder", "pooled"
]  # what the rows of a box are: a stack's tokens, or one vector for all

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
        if isinstance(self.model, Transformer):
            owners = {"all": "the embedding table", "target": "the decoder's embedding table"}
            return owners.get(self.config.share_embeddings, "a matrix of its own")
        own = self.config.share_embeddings == "none" and self.masked_head is None
        return "a matrix of its own" if own else "the embedding table"

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
        return Structure(
            model, model.vision.config, (_encoder("vision", "patch"),), model.output.out_features
        )
    found = type(model).__name__.removesuffix("Seq2Seq").lower()
    raise ConfigError(f"box: expected a Transformer, found a {found} model")


def _encoder(prefix: str, embedding: str) -> StackModules:
    """Return the stack of an `Encoder` in a model of one text or of images."""
    inside = f"{prefix}.encoder"
    return StackModules(
        "encoder", f"{prefix}.{embedding}", f"{prefix}.positions", f"{inside}.layers", f"{inside}.norm"
    )

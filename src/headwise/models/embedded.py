"""Base classes of models with embeddings, whose weights the output projection may share."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.base import Projecting, Seq2Seq
from headwise.nn.dropout import dropout
from headwise.nn.layers import Embedding


class Embedded(Projecting):
    """Base class of models over ids.

    With `share_embeddings` none, the output projection has its own weights, otherwise those of an embedding; with
    `logit_bias`, a bias.
    """

    config: ModelConfig

    def _add_output(self, size: int) -> None:
        """Add the parameters of the output projection to `size` ids."""
        if self.config.share_embeddings == "none":
            self.output_projection = nn.Linear(self.config.d_model, size, bias=False)
        self.logit_bias = nn.Parameter(torch.zeros(size)) if self.config.logit_bias else None

    @property
    @abstractmethod
    def _output_embedding(self) -> nn.Embedding:
        """The embedding whose weights the output projection may share."""

    @property
    def output_weight(self) -> Tensor:  # noqa: D102
        own = self.config.share_embeddings == "none"
        return self.output_projection.weight if own else self._output_embedding.weight

    @property
    def output_bias(self) -> Tensor | None:  # noqa: D102
        return self.logit_bias


class EmbeddedSeq2Seq(Embedded, Seq2Seq):
    """Base class of models with embeddings of width d_model, shared according to `share_embeddings`."""

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_size, self.target_size = source_size, target_size
        self.max_length = config.max_length
        self.source_embedding = Embedding(source_size, config.d_model)
        if config.share_embeddings == "all":
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = Embedding(target_size, config.d_model)
        self._add_output(target_size)

    def _init_embeddings(self, std: float) -> None:
        """Initialize the embeddings, and an output projection that isn't shared, from a normal distribution."""
        for name, parameter in self.named_parameters():
            if name.startswith(("source_embedding", "target_embedding", "output_projection")):
                nn.init.normal_(parameter, std=std)

    @property
    def _output_embedding(self) -> nn.Embedding:
        return self.target_embedding

    def _look_up(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """Return the embeddings (…, d_model) of tokens (…), in the dtype of the activations."""
        return embedding(tokens).to(self.compute_dtype)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)

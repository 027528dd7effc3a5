"""Base class of models of a single text: token embedding, input embedding, and output projection."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.base import Projecting
from headwise.models.transformer import InputEmbedding
from headwise.nn.layers import Embedding


class SingleText(Projecting):
    """Base class of models over ids of one vocabulary.

    `compute_dtype` is the dtype of the activations; parameters stay in float32. With `share_embeddings` none, the
    output projection has its own weights, otherwise those of the embedding; with `logit_bias`, a bias.
    """

    compute_dtype: torch.dtype = torch.float32

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__()
        self.config, self.size, self.max_length = config, size, config.max_length
        self.embedding = Embedding(size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = InputEmbedding(config)
        if config.share_embeddings == "none":
            self.output_projection = nn.Linear(config.d_model, size, bias=False)
            nn.init.normal_(self.output_projection.weight, std=config.d_model**-0.5)
        self.logit_bias = nn.Parameter(torch.zeros(size)) if config.logit_bias else None

    @property
    def output_weight(self) -> Tensor:  # noqa: D102
        if self.config.share_embeddings == "none":
            return self.output_projection.weight
        return self.embedding.weight

    @property
    def output_bias(self) -> Tensor | None:  # noqa: D102
        return self.logit_bias

    def look_up(self, tokens: Tensor) -> Tensor:
        """Return the embeddings (…, d_model) of tokens (…) in the activations' dtype, without scaling and positions."""
        return self.embedding(tokens).to(self.compute_dtype)

"""Input embedding of models of a single text or image, and the base class of those of a text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.base import Projecting
from headwise.models.blocks import normalization
from headwise.models.transformer import InputEmbedding
from headwise.nn.dropout import dropout
from headwise.nn.layers import Embedding


class BertEmbedding(InputEmbedding):
    """Dropout(Norm(√d_model E + PE + S)) (Devlin et al. 2019), with S the embeddings of segments.

    Without `embedding_norm` it isn't normalized, and without `segments` it has no S.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.norm = normalization(config) if config.embedding_norm else nn.Identity()
        self.segments = nn.Embedding(config.segments, config.d_model) if config.segments else None
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=config.d_model**-0.5)

    def forward(self, x: Tensor, start: int = 0, segments: Tensor | None = None) -> Tensor:
        """Embed x (batch, time, d_model) at positions start, start+1, …; segments (batch, time) are all 0 if None."""
        x = self.add_positions(x, start)
        if self.segments is not None:
            embedded = self.segments.weight[0] if segments is None else self.segments(segments)
            x = x + embedded.to(x.dtype)
        return dropout(self.norm(x), self.dropout, self.training)


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
        self.positions = BertEmbedding(config)
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

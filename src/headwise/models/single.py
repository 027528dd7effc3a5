"""Input embedding of models of a single text or image, and the base class of those of a text."""

from __future__ import annotations

from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.blocks import normalization
from headwise.models.embedded import Embedded
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


class SingleText(Embedded):
    """Base class of models over ids of one vocabulary."""

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__()
        self.config, self.size, self.max_length = config, size, config.max_length
        self.embedding = Embedding(size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = BertEmbedding(config)
        self._add_output(size)
        if config.share_embeddings == "none":
            nn.init.normal_(self.output_projection.weight, std=config.d_model**-0.5)

    @property
    def _output_embedding(self) -> nn.Embedding:
        return self.embedding

    def look_up(self, tokens: Tensor) -> Tensor:
        """Return the embeddings (…, d_model) of tokens (…) in the activations' dtype, without scaling and positions."""
        return self.embedding(tokens).to(self.compute_dtype)

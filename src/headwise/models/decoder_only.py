"""The decoder-only Transformer (GPT): the paper's encoder layers (section 3.1) with a causal mask.

Radford et al. 2018 and 2019 (GPT, GPT-2); Touvron et al. 2023 (Llama) with `normalization: rms`, `positions: rotary`,
`gated` feed-forward and `key_value_heads`. As a prefix language model (Raffel et al. 2020, section 3.2.1), attention is
bidirectional over the first tokens of each row.

Shape legend: batch = rows = texts, time = tokens, d_model = width.
"""

from __future__ import annotations

from torch import Tensor

from headwise.config import ModelConfig
from headwise.models.blocks import final_norm
from headwise.models.single import SingleText
from headwise.models.transformer import EncoderLayer
from headwise.nn.attention import registered
from headwise.nn.cache import Cache, KeyValueCache
from headwise.nn.layers import Stack
from headwise.nn.masks import prefix_mask
from headwise.nn.positions import attention_positions


class DecoderState:
    """Decoding state: a cache for each layer."""

    def __init__(self, caches: list[Cache]) -> None:
        self.caches = caches

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.caches[0].length

    def select(self, rows: Tensor) -> DecoderState:
        """Reorder the caches: row r becomes what row rows[r] was; the number of rows may change."""
        for cache in self.caches:
            cache.select(rows)
        return self


class DecoderOnly(SingleText):
    """Causal language model with `decoder_layers` layers, or a prefix language model with `prefix`.

    Raises `ConfigError` for unknown kinds of attention and positions, and for those that can't be combined.
    """

    def __init__(self, config: ModelConfig, size: int) -> None:
        super().__init__(config, size)
        if config.prefix:
            registered(config.attention).require("pairs", "model.prefix=true")
        inside = attention_positions(config, config.decoder_layers, causal=not config.prefix)
        role = "self" if config.prefix else "causal"
        self.layers = Stack(EncoderLayer(config, positions, role) for positions in inside)
        self.norm = final_norm(config)

    def forward(self, tokens: Tensor, prefix: Tensor | None = None) -> Tensor:
        """Return the hidden states (batch, time, d_model) of tokens (batch, time); position t attends to tokens 0 … t.

        For a model with `prefix`, `prefix` (batch,) is the number of first tokens of each row that all positions attend
        to. Padding on the right needs no mask, because no earlier position attends to it.
        """
        return self._read(tokens, self._mask(tokens, 0, prefix))

    def start(self) -> DecoderState:
        """Return an empty decoding state."""
        return DecoderState([layer.self_attention.new_cache() for layer in self.layers])

    def step(self, tokens: Tensor, state: DecoderState, prefix: Tensor | None = None) -> tuple[Tensor, DecoderState]:
        """Feed new tokens (rows, new); returns float32 log-probabilities (rows, size) of the next token.

        A `prefix` (rows,), if any, must be fed completely in the first step.
        """
        mask = self._mask(tokens, state.position, prefix)
        return self.log_probabilities(self._read(tokens, mask, state)[:, -1]), state

    @property
    def keeps_all(self) -> bool:
        """Whether the decoding state grows with the text, because a layer has a key/value cache."""
        return any(isinstance(cache, KeyValueCache) for cache in self.start().caches)

    @property
    def bounded(self) -> bool:
        """Whether texts are limited to `max_length` tokens, by a table of positions."""
        return self.positions.table is not None

    def _read(self, tokens: Tensor, mask: Tensor | None, state: DecoderState | None = None) -> Tensor:
        start, caches = (0, [None] * len(self.layers)) if state is None else (state.position, state.caches)
        x = self.positions(self.look_up(tokens), start)  # (batch, time, d_model)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, mask, cache)
        return self.norm(x)

    def _mask(self, tokens: Tensor, start: int, prefix: Tensor | None) -> Tensor | None:
        if not self.config.prefix:
            if prefix is not None:
                raise ValueError("expected no prefix lengths for a model without model.prefix, found some")
            return None
        if prefix is None:
            prefix = tokens.new_zeros(tokens.size(0))
        return prefix_mask(prefix, tokens.size(1), start + tokens.size(1))

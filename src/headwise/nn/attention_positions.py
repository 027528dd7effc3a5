"""Position encodings inside self-attention: rotations of queries and keys, and biases on the scores.

p is the position of a query, j that of a key; the attention scores depend on positions only through j - p.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.nn.positions import AttentionPositions, register_positions
from headwise.nn.relative import RelativeBias


def distances(reach: int, device: torch.device | None = None) -> Tensor:
    """Return the distances -reach … reach, which index the last dimension of a `RelativeBias`."""
    return torch.arange(-reach, reach + 1, device=device)


@register_positions("rotary")
class Rotary(AttentionPositions):
    """Rotary position embedding (RoPE, Su et al. 2021, equations 14, 15, 34).

    Pair i of a query or key at position p is rotated by the angle p · base^(-2i / d_k), so that the product of two
    rotated vectors depends on the difference of their positions only. Raises `ConfigError` for an odd d_k.
    """

    needs = frozenset({"rotation"})

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        if config.key_size % 2:
            raise ConfigError(f"model.positions=rotary needs an even model.d_k, found {config.key_size}")
        options = config.position_options.rotary
        self.halves = options.pairs == "halves"
        exponent = torch.arange(0, config.key_size, 2, dtype=torch.float64, device="cpu") / config.key_size
        self._frequency = options.base**-exponent  # not a buffer, as mps, to which those go, has no float64

    def angles(self, start: int, length: int, device: torch.device | None = None) -> Tensor:
        """Return the angles of the positions from `start` on, (length, d_k / 2) float64, or float32 on mps."""
        dtype = torch.float32 if device is not None and device.type == "mps" else torch.float64
        position = torch.arange(start, start + length, dtype=dtype, device=device)
        return position[:, None] * self._frequency.to(position.device, dtype, non_blocking=True)

    def rotate(self, x: Tensor, start: int) -> Tensor:  # noqa: D102
        angle = self.angles(start, x.size(2), x.device)
        cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        if self.halves:
            first, second = x.chunk(2, dim=-1)
        else:
            first, second = x[..., 0::2], x[..., 1::2]
        rotated = (first * cosine - second * sine, first * sine + second * cosine)
        return torch.cat(rotated, dim=-1) if self.halves else torch.stack(rotated, dim=-1).flatten(-2)


def alibi_slopes(heads: int) -> list[float]:
    """Return the slope of each head (Press et al. 2022, section 3): 2^(-8/n), 2^(-16/n), … for n heads.

    For a number that isn't a power of two, the authors use the slopes of the next lower power n, then every second
    slope of 2n.
    """
    lower = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    return slopes + [2 ** (-4 * i / lower) for i in range(1, 2 * (heads - lower), 2)]


@register_positions("alibi")
class ALiBi(AttentionPositions):
    """ALiBi: subtract slope · |p - j| from the scores (Press et al. 2022, equation in section 3); no parameters."""

    needs = frozenset({"bias"})

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        self.register_buffer("slopes", torch.tensor(alibi_slopes(config.heads)), persistent=False)
        self.slopes: Tensor

    def bias(self, q: Tensor, keys: int) -> RelativeBias:  # noqa: D102
        table = -self.slopes[:, None] * distances(keys - 1, q.device).abs()  # (heads, distance)
        return RelativeBias(table[None, :, None])


def t5_bucket(distance: Tensor, *, causal: bool, buckets: int, reach: int) -> Tensor:
    """Return the bucket of each distance j - p (Raffel et al. 2020, section 2.1).

    Without `causal`, each direction has half of the buckets. In a direction, half of the buckets hold one distance
    each; the others widen logarithmically up to `reach`, and all longer distances share the last one.
    """
    if causal:
        later, length = torch.zeros_like(distance), -distance.clamp(max=0)
    else:
        buckets //= 2
        later, length = (distance > 0).long() * buckets, distance.abs()
    single = buckets // 2
    # In float32, as for all published weights: rounding decides where a bucket begins.
    widening = (length.clamp(min=1).float() / single).log() / math.log(reach / single) * (buckets - single)
    wide = (single + widening.long()).clamp(max=buckets - 1)
    return later + torch.where(length < single, length, wide)


@register_positions("t5")
class T5Buckets(AttentionPositions):
    """T5: add a learned bias per head and distance bucket, one table per stack (Raffel et al. 2020, section 2.1)."""

    needs = frozenset({"bias"})

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        options = config.position_options.t5
        self.causal, self.buckets, self.reach = causal, options.buckets, options.reach
        self.table = nn.Parameter(torch.empty(options.buckets, config.heads))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def bias(self, q: Tensor, keys: int) -> RelativeBias:  # noqa: D102
        distance = distances(min(keys - 1, self.reach), q.device)
        bucket = t5_bucket(distance, causal=self.causal, buckets=self.buckets, reach=self.reach)
        return RelativeBias(functional.embedding(bucket, self.table).t()[None, :, None])


@register_positions("relative")
class Relative(AttentionPositions):
    """Add a learned vector per clipped distance to the keys, and optionally to the values (Shaw et al. 2018).

    e = q (k + a^K)ᵀ / √d_k and z = Σ α (v + a^V) (equations 3 and 4), with separate tables in each layer.
    """

    shared = False

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__(config, causal=causal)
        options = config.position_options.relative
        self.needs = frozenset({"bias", "weights"} if options.values else {"bias"})
        self.reach = options.reach
        heads = config.heads if options.per_head else 1
        self.keys = nn.Parameter(torch.empty(heads, 2 * options.reach + 1, config.key_size))
        nn.init.xavier_uniform_(self.keys)
        self.added = None
        if options.values:
            self.added = nn.Parameter(torch.empty(heads, 2 * options.reach + 1, config.value_size))
            nn.init.xavier_uniform_(self.added)

    def bias(self, q: Tensor, keys: int) -> RelativeBias:  # noqa: D102
        return RelativeBias(q @ self.keys.to(q.dtype).transpose(-2, -1) * q.size(-1) ** -0.5)

    def values(self, weights: Tensor) -> Tensor:
        """Return Σ_j α_pj a^V_{j-p}, (batch, heads, query, d_v), by first summing the weights of each distance."""
        assert self.added is not None
        queries, keys = weights.shape[-2:]
        rows = torch.arange(queries, device=weights.device)[:, None] + keys - queries
        distance = torch.arange(keys, device=weights.device) - rows
        index = distance.clamp(-self.reach, self.reach) + self.reach
        sums = weights.new_zeros(*weights.shape[:-1], 2 * self.reach + 1)
        sums = sums.scatter_add(-1, index.expand_as(weights), weights)
        return sums @ self.added.to(weights.dtype)

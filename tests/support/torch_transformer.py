"""An encoder-decoder Transformer of `torch.nn` alone, the reference for checkpoints whose library isn't installed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class TorchTransformer(nn.Module):
    """Layers of `nn.Transformer` between embeddings, fixed positions (length, width) and an output projection.

    `tied` is "all", "target" or "none", as `model.share_embeddings`.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        positions: Tensor,
        *,
        tied: str,
        pre: bool,
        epsilon: float,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        width = positions.shape[1]
        self.positions, self.scale = positions, math.sqrt(width) if scaled else 1.0
        self.source = nn.Embedding(sizes[0], width)
        self.target = self.source if tied == "all" else nn.Embedding(sizes[1], width)
        self.output = self.target if tied != "none" else nn.Embedding(sizes[1], width)
        shape: dict[str, Any] = {"d_model": width, "nhead": 4, "dim_feedforward": 48, "dropout": 0.0}
        shape |= {"layer_norm_eps": epsilon, "batch_first": True, "norm_first": pre}
        norms = [nn.LayerNorm(width, epsilon) if pre else None for _ in range(2)]
        layer = nn.TransformerEncoderLayer(**shape)
        encoder = nn.TransformerEncoder(layer, 2, norms[0], enable_nested_tensor=False)
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), 1, norms[1])
        self.layers = nn.Transformer(
            width, 4, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        for name, parameter in self.named_parameters():
            if "norm" not in name:
                nn.init.normal_(parameter, std=0.2)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return log-probabilities (target, pieces) of the next piece after each of target (target,), given source."""
        source, target = (
            (embedding(ids) * self.scale + self.positions[: len(ids)])[None]
            for embedding, ids in ((self.source, source), (self.target, target))
        )
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.layers(source, target, tgt_mask=mask, tgt_is_causal=True)
        return (hidden[0] @ self.output.weight.T).log_softmax(-1)

    def train_on(
        self, pairs: list[tuple[list[int], list[int]]], begin: int, steps: int = 5
    ) -> TorchTransformer:
        """Train for some steps on ids that end with the end of a sentence."""
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        for _ in range(steps):
            for source, target in pairs:
                found = self(torch.tensor(source), torch.tensor([begin, *target[:-1]]))
                nn.functional.nll_loss(found, torch.tensor(target)).backward()
            optimizer.step()
            optimizer.zero_grad()
        return self.eval()

    @torch.no_grad()
    def greedy(self, source: list[int], begin: int, end: int, banned: list[int], longest: int) -> list[int]:
        """Return the likeliest piece after each other, without the end."""
        found = [begin]
        while len(found) <= longest:
            scores = self(torch.tensor(source), torch.tensor(found))[-1]
            scores[banned] = -math.inf
            found.append(int(scores.argmax()))
            if found[-1] == end:
                return found[1:-1]
        return found[1:]

    def layer_state(self) -> dict[str, Tensor]:
        """Return the layers' parameters with queries, keys and values apart, as `…q_proj.weight`."""
        state: dict[str, Tensor] = {}
        for name, tensor in self.layers.state_dict().items():
            if ".in_proj_" in name:
                attention, _, part = name.partition(".in_proj_")
                for letter, each in zip("qkv", tensor.chunk(3), strict=True):
                    state[f"{attention}.{letter}_proj.{part}"] = each.clone()
            else:
                state[name] = tensor
        return state


def paper_positions(length: int, width: int) -> Tensor:
    """Return the paper's sinusoids, number by number."""
    table = torch.empty(length, width)
    for position in range(length):
        for index in range(width):
            angle = position / 10000 ** ((index - index % 2) / width)
            table[position, index] = math.cos(angle) if index % 2 else math.sin(angle)
    return table

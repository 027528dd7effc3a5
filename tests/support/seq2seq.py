"""Helpers for parity tests of whole models: a small model, padded batches, and comparison of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.transformer import Transformer

VOCABULARY = 61
Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class PaddedBatch:
    source: Tensor  # (batch, source) ids, 0 = padding
    source_mask: Tensor  # (batch, source), True = real token
    target: Tensor  # (batch, target) ids, 0 = padding
    target_mask: Tensor  # (batch, target)


def padded_batch(seed: int, source_lengths: Iterable[int], target_lengths: Iterable[int]) -> PaddedBatch:
    generator = torch.Generator().manual_seed(seed)

    def side(lengths: Iterable[int]) -> tuple[Tensor, Tensor]:
        column = torch.tensor(list(lengths))[:, None]
        mask = torch.arange(int(column.max())) < column
        ids = torch.randint(4, VOCABULARY, mask.shape, generator=generator)
        return ids * mask, mask

    return PaddedBatch(*side(source_lengths), *side(target_lengths))


def logits_of(theirs: nn.Module, batch: PaddedBatch) -> Tensor:
    """Return the logits of a model of `transformers` for the targets of a batch."""
    return theirs(
        input_ids=batch.source,
        attention_mask=batch.source_mask.long(),
        decoder_input_ids=batch.target,
        decoder_attention_mask=batch.target_mask.long(),
        use_cache=False,
    ).logits


def small_model(seed: int = 0, **changes: Any) -> Transformer:
    """Return a model in evaluation mode with random parameters, including biases and normalization gains."""
    shape = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 24}
    shape |= {"d_ff": 40, "heads": 4, "max_length": 32}
    config = ModelConfig.model_validate({**shape, "attention_bias": True, "dropout": 0.3, **changes})
    torch.manual_seed(seed)
    return randomized(Transformer(config, VOCABULARY, VOCABULARY).eval())


def randomized(model: Model) -> Model:
    """Give biases and gains, which begin as zeros and ones, random values; return the model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
            elif parameter.dim() == 1:
                parameter.normal_(mean=1.0, std=0.3)
    return model


def copy_norm(ours: nn.Module, theirs: nn.LayerNorm) -> None:
    theirs.load_state_dict(ours.state_dict())


def random_projection(hidden: Tensor, real: Tensor) -> Tensor:
    """Return a randomly weighted sum over the real positions, so that errors in gradients don't cancel."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(hidden.shape, generator=generator)
    return (hidden * weights)[real].sum()


def gradients(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    by_name = {}
    for name, parameter in parameters.items():
        assert parameter.grad is not None, name
        by_name[name] = parameter.grad
    return by_name


def assert_same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: float) -> None:
    """Compare tensors by name, with a tolerance relative to the largest magnitude of each expected tensor."""
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        scale = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(
            ours[name],
            expected,
            rtol=0,
            atol=tolerance * scale,
            msg=lambda text, name=name: f"{name}: {text}",
        )

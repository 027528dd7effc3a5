"""Selection of the parameters to train: frozen parts (`training.freeze`) and LoRA (`training.lora`).

Frozen parameters get no gradient, no optimizer state and no weight decay. With LoRA (Hu et al. 2021), every parameter
is frozen, and some weights get a trained low-rank update (`headwise.nn.linear.LowRank`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from headwise.config import LoraConfig, TrainingConfig
from headwise.errors import ConfigError
from headwise.nn.layers import FeedForward
from headwise.nn.linear import Linear, LowRank, low_rank_layers
from headwise.nn.multihead import MultiHeadAttention

# Whether a parameter belongs to a part, by the components of its dotted name.
_PARTS: dict[str, Callable[[list[str]], bool]] = {
    "encoder": lambda name: name[0] in ("encoder", "encoder_norm", "bridges"),
    "decoder": lambda name: name[0].startswith("decoder"),
    "embeddings": lambda name: (
        any(part.endswith("embedding") for part in name)
        or ("positions" in name and "self_attention" not in name)
    ),
    "output": lambda name: name[0] in ("output_projection", "logit_bias", "head"),
    "self_attention": lambda name: "self_attention" in name,
    "cross_attention": lambda name: "cross_attention" in name,
    "feed_forward": lambda name: "feed_forward" in name,
    "norms": lambda name: any(part.endswith("norm") for part in name),
}


def select_trainable(model: nn.Module, options: TrainingConfig) -> None:
    """Freeze the parts of a model that `training.freeze` names, and add the low-rank updates of `training.lora`.

    Raises `ConfigError` for a part or a projection that the model doesn't have, or if nothing is left to train.
    """
    for part in options.freeze:
        _freeze(model, part)
    if options.lora.rank:
        _add_low_rank(model, options.lora)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(
            f"training.freeze: expected parts that leave something to train, found {', '.join(options.freeze)}, "
            "which is the whole model"
        )


def describe_trainable(model: nn.Module, options: TrainingConfig) -> str:
    """Return how many parameters are trained, for a message; empty if all are."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if not options.freeze and not options.lora.rank:
        return ""
    reasons = [f"frozen: {', '.join(options.freeze)}"] if options.freeze else []
    if options.lora.rank:
        layers = len(list(low_rank_layers(model)))
        reasons.append(f"LoRA of rank {options.lora.rank} on {layers} matrices")
    return f"{trained:,} of them trained ({'; '.join(reasons)})"


def merge_low_rank(model: nn.Module) -> None:
    """Add every low-rank update to its weight and remove it, so that the model is an ordinary one."""
    for _, layer in list(low_rank_layers(model)):
        with torch.no_grad():
            layer.weight.copy_(layer.merged_weight())
        layer.low_rank = None


def _freeze(model: nn.Module, part: str) -> None:
    found = [
        parameter
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if _PARTS[part](name.split(".")) or (part == "output" and parameter is _output_weight(model))
    ]
    if not found:
        known = [
            name
            for name, belongs in _PARTS.items()
            if any(belongs(parameter.split(".")) for parameter, _ in model.named_parameters())
        ]
        raise ConfigError(f"training.freeze: expected parts of this model ({', '.join(known)}), found {part}")
    for parameter in found:
        parameter.requires_grad_(False)


def _output_weight(model: nn.Module) -> object:
    return getattr(model, "output_weight", None)


def _add_low_rank(model: nn.Module, options: LoraConfig) -> None:
    """Give a low-rank update to every chosen projection that isn't frozen, then freeze all other parameters."""
    layers = [layer for layer in _projections(model, options) if layer.weight.requires_grad]
    if not layers:
        raise ConfigError(
            "training.lora.projections: expected projections of a Transformer that aren't frozen, "
            f"found {_listed(options)}"
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for layer in layers:
        layer.low_rank = LowRank(
            layer.in_features, layer.out_features, options.rank, options.alpha, options.dropout
        ).to(layer.weight.device)


def _projections(model: nn.Module, options: LoraConfig) -> list[Linear]:
    chosen = options.projections

    def is_chosen(name: str) -> bool:
        return chosen == "all" or name in chosen

    layers: list[Linear | None] = []
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            layers += [getattr(module, n) for n in ("query", "key", "value", "output") if is_chosen(n)]
        elif isinstance(module, FeedForward) and is_chosen("feed_forward"):
            layers += [module.w1, module.gate, module.w2]
    return [layer for layer in layers if layer is not None]


def _listed(options: LoraConfig) -> str:
    return options.projections if isinstance(options.projections, str) else ", ".join(options.projections)

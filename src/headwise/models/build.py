"""From a configuration to a model, and from a run directory to a trained one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from headwise.config import Config, ModelConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.convolutional import ConvolutionalSeq2Seq
from headwise.models.decoder_only import DecoderOnly
from headwise.models.encoder_only import EncoderOnly
from headwise.models.recurrent import RecurrentSeq2Seq
from headwise.models.transformer import Transformer

# A new architecture is one file and one line here; it is called with (model configuration, source size, target size).
ARCHITECTURES: dict[str, type[Seq2Seq]] = {
    "transformer": Transformer,
    "recurrent": RecurrentSeq2Seq,
    "convolutional": ConvolutionalSeq2Seq,
}


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """Build an untrained model for vocabularies of these sizes.

    Raises `ConfigError` where the architecture is unknown, where a key is set that means nothing to it, or where the
    vocabularies don't fit the sharing asked for.
    """
    if config.architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise ConfigError(f"model.architecture: expected one of {known}, found {config.architecture!r}")
    architecture = ARCHITECTURES[config.architecture]
    _refuse_unused(config, architecture.unused, f"architecture {config.architecture}")
    if config.share_embeddings == "all" and source_size != target_size:
        raise ConfigError(
            "model.share_embeddings: sharing all embeddings needs one joint vocabulary, "
            f"found {source_size} source and {target_size} target subwords"
        )
    return architecture(config, source_size, target_size)


def build_decoder_only(config: ModelConfig, size: int) -> DecoderOnly:
    """Build an untrained decoder-only Transformer for a vocabulary of this size; raises `ConfigError`."""
    check_shape(config, DecoderOnly.unused, "a decoder-only model")
    return DecoderOnly(config, size)


def build_encoder_only(config: ModelConfig, size: int) -> EncoderOnly:
    """Build an untrained encoder-only Transformer for a vocabulary of this size; raises `ConfigError`."""
    check_shape(config, EncoderOnly.unused, "an encoder-only model")
    return EncoderOnly(config, size)


def check_shape(config: ModelConfig, unused: Iterable[str], what: str) -> None:
    """Raise `ConfigError` where a Transformer without two sides is to be another architecture, or has unused keys."""
    if config.architecture != "transformer":
        raise ConfigError(
            f"model.architecture: expected transformer for {what}, found {config.architecture!r}"
        )
    _refuse_unused(config, unused, what)


def _refuse_unused(config: ModelConfig, unused: Iterable[str], what: str) -> None:
    """Refuse keys that mean nothing to a model."""
    for key in unused:
        if getattr(config, key) != ModelConfig.model_fields[key].default:
            raise ConfigError(
                f"model.{key}: expected nothing here, as {what} has no use for it, found {getattr(config, key)!r}"
            )


def load_weights(model: torch.nn.Module, path: Path) -> None:
    """Fill `model` from a safetensors file; shared tensors are stored once.

    Raises `CheckpointError` naming the file, and the first tensor that doesn't fit.
    """
    with _reading(path):
        tensors = load_file(path)
    wanted = dict(model.named_parameters())
    for name, parameter in wanted.items():
        if name not in tensors:
            raise CheckpointError(f"{path}: expected tensor {name}, found none of that name")
        if tensors[name].shape != parameter.shape:
            raise CheckpointError(
                f"{path}: expected {name} of shape {tuple(parameter.shape)}, found {tuple(tensors[name].shape)}"
            )
    if extra := sorted(set(tensors) - set(wanted)):
        raise CheckpointError(f"{path}: found tensor {extra[0]}, which this configuration has no place for")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(tensors[name])


def read_recipe(path: Path) -> dict[str, Any]:
    """Return what a model's file says it was made from (`subwords`, `data`, `steps`); empty if it says nothing.

    Raises `CheckpointError` where the file is missing or damaged.
    """
    with _reading(path), safe_open(path, "pt") as file:
        return json.loads((file.metadata() or {}).get("headwise", "{}"))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; was this run trained to its end?") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file, found a damaged one ({error})") from None


def load_model(run: Path, source_size: int, target_size: int, config: Config | None = None) -> Seq2Seq:
    """Load the trained model of a run directory, on the CPU, in evaluation mode."""
    config = config or Config.load(run / "config.yaml")
    model = build_model(config.model, source_size, target_size)
    load_weights(model, run / "model.safetensors")
    return model.eval()

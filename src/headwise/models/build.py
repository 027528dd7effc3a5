"""From a configuration to a model, and from a run directory to a trained one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from headwise.config import Config, ModelConfig
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.convolutional import ConvolutionalSeq2Seq
from headwise.models.decoder_only import DecoderOnly
from headwise.models.encoder_only import EncoderOnly
from headwise.models.recurrent import RecurrentSeq2Seq
from headwise.models.transformer import Transformer
from headwise.models.weights import Weights
from headwise.nn.memory import LOADING, check_fits

Built = TypeVar("Built", bound=torch.nn.Module)

Model = TypeVar("Model", bound=nn.Module)

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
    return _fitting(lambda: architecture(config, source_size, target_size), config, source_size, target_size)


def build_decoder_only(config: ModelConfig, size: int) -> DecoderOnly:
    """Build an untrained decoder-only Transformer for a vocabulary of this size; raises `ConfigError`."""
    check_shape(config, DecoderOnly.unused, "a decoder-only model")
    return _fitting(lambda: DecoderOnly(config, size), config, size)


def build_encoder_only(config: ModelConfig, size: int) -> EncoderOnly:
    """Build an untrained encoder-only Transformer for a vocabulary of this size; raises `ConfigError`."""
    check_shape(config, EncoderOnly.unused, "an encoder-only model")
    return _fitting(lambda: EncoderOnly(config, size), config, size)


def _fitting(build: Callable[[], Built], config: ModelConfig, *sizes: int) -> Built:
    """Build a model that fits the memory; raises `ConfigError` for one that doesn't."""
    if torch.empty(0).device.type != "meta":  # where it is only counted
        check_fits(build, config, max(sizes), torch.device("cpu"), each=LOADING)
    return build()


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


_DRAWING = (nn.init.normal_, nn.init.uniform_, torch.Tensor.normal_, torch.Tensor.uniform_)


class _Weightless(TorchFunctionMode):
    """Modules are built with parameters that have shapes and no memory, and nothing is drawn for them.

    `torch.device("meta")` does more, for which PyTorch imports its compiler: 2.5 seconds and 80 MiB.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in _DRAWING:
            return args[0] if args else named["tensor"]
        if func in (torch.empty, torch.zeros, torch.ones):
            named = named | {"device": "meta"}
        return func(*args, **named)


def fitting(make: Callable[[], nn.Module], path: Path) -> Weights:
    """Open a safetensors file whose tensors have the shapes of the model that `make` builds, and no others.

    The model is built without memory, so that nothing that a configuration asks for is taken before the file has
    shown that it holds it. Raises `CheckpointError` naming the file, and the first tensor that doesn't fit.
    """
    weights = Weights(path)
    with _Weightless():
        weights.check(_shapes(make()))
    return weights


def load_filled(make: Callable[[], Model], path: Path) -> Model:
    """Build a model and fill it from a safetensors file that fits it; raises `CheckpointError` as `fitting` does."""
    weights = fitting(make, path)
    model = make()
    weights.fill(dict(model.named_parameters()))
    return model


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model that is there already from a safetensors file; shared tensors are stored once.

    Raises `CheckpointError` naming the file, and the first tensor that doesn't fit.
    """
    weights = Weights(path)
    weights.check(_shapes(model))
    weights.fill(dict(model.named_parameters()))


def load_model(run: Path, source_size: int, target_size: int, config: Config | None = None) -> Seq2Seq:
    """Load the trained model of a run directory, on the CPU, in evaluation mode."""
    found = config or Config.load(run / "config.yaml")
    return load_filled(
        lambda: build_model(found.model, source_size, target_size), run / "model.safetensors"
    ).eval()


def _shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}

"""Build untrained models from a configuration, and load trained ones from a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.config import Config, ModelConfig
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.convolutional import ConvolutionalSeq2Seq
from headwise.models.decoder_only import DecoderOnly
from headwise.models.encoder_only import EncoderOnly
from headwise.models.output_heads import HeadedEncoder
from headwise.models.recurrent import RecurrentSeq2Seq
from headwise.models.transformer import Transformer
from headwise.nn.device import find_device, find_precision, keep_compiled_products
from headwise.nn.memory import LOADING, TRAINING, check_fits
from headwise.weights import Weights, model_file

Model = TypeVar("Model", bound=nn.Module)

# The registry of architectures: classes called with (model configuration, source size, target size).
# A new architecture is a file and a line here.
ARCHITECTURES: dict[str, type[Seq2Seq]] = {
    "transformer": Transformer,
    "recurrent": RecurrentSeq2Seq,
    "convolutional": ConvolutionalSeq2Seq,
}


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """Build an untrained model for vocabularies of these sizes.

    Raises `ConfigError` if the architecture is unknown, if a key is set that has no effect on it, or if the
    vocabularies don't fit `share_embeddings`.
    """
    if config.architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise ConfigError(f"model.architecture: expected one of {known}, found {config.architecture!r}")
    architecture = ARCHITECTURES[config.architecture]
    if architecture.__module__.partition(".")[0] == "headwise":  # which keys another one uses, only it knows
        config.check_keys(config.architecture, f"architecture {config.architecture}")
    config.check_vocabularies(source_size, target_size)
    return _build_checked(architecture, config, source_size, target_size)


def build_decoder_only(config: ModelConfig, size: int) -> DecoderOnly:
    """Build an untrained decoder-only Transformer for a vocabulary of this size; raises `ConfigError`."""
    check_one_stack(config, "decoder-only", "a decoder-only model")
    return _build_checked(DecoderOnly, config, size)


def build_encoder_only(config: ModelConfig, size: int) -> EncoderOnly:
    """Build an untrained encoder-only Transformer for a vocabulary of this size; raises `ConfigError`."""
    check_one_stack(config, "encoder-only", "an encoder-only model")
    return _build_checked(EncoderOnly, config, size)


def _build_checked(make: Callable[..., Model], config: ModelConfig, *sizes: int) -> Model:
    """Build a model; raises `ConfigError` if it doesn't fit in memory."""
    if torch.empty(0).device.type != "meta":  # on the meta device, parameters take no memory
        check_fits(lambda: make(config, *sizes), config, max(sizes), torch.device("cpu"), each=LOADING)
    return make(config, *sizes)


def build_for_training(make: Callable[[], Model], config: Config, device: torch.device, *, fits: bool = False) -> Model:
    """Build the untrained model of a configuration on its device, with its seed and precision.

    On a CPU, oneDNN keeps its compiled products from now on: trials and training take their first product after this.
    With `fits`, raises `ConfigError` where its training in `training.processes`, or in one, doesn't fit into memory.
    """
    if fits:
        processes = config.training.processes
        each = TRAINING * (1 if processes == "auto" else processes)
        check_fits(make, config.model, config.subwords.size, device, each=each)
    if device.type == "cpu":
        keep_compiled_products()
    torch.manual_seed(config.training.seed)
    model = make().to(device)
    if hasattr(model, "compute_dtype"):
        model.compute_dtype = training_precision(config, device)  # type: ignore[assignment]
    return model


def training_precision(config: Config, device: torch.device) -> torch.dtype:
    """Return the dtype of the activations in the training of a configuration."""
    return find_precision(config.training.precision, device, config.batch.tokens * config.model.d_model)


def check_one_stack(config: ModelConfig, kind: str, what: str) -> None:
    """Raise `ConfigError` if a model without encoder and decoder isn't a Transformer, or sets keys of other kinds."""
    if config.architecture != "transformer":
        raise ConfigError(f"model.architecture: expected transformer for {what}, found {config.architecture!r}")
    config.check_keys(kind, what)


_RANDOM_INIT = (nn.init.normal_, nn.init.uniform_, torch.Tensor.normal_, torch.Tensor.uniform_)


class _Weightless(TorchFunctionMode):
    """Mode in which modules are built with parameters without memory, and random initialization is skipped.

    `torch.device("meta")` as a context does more, for which PyTorch imports its compiler: 2.5 seconds and 80 MiB.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        if func in _RANDOM_INIT:
            return args[0] if args else keywords["tensor"]
        if func in (torch.empty, torch.zeros, torch.ones):
            keywords = keywords | {"device": "meta"}
        return func(*args, **keywords)


def fitting(make: Callable[[], nn.Module], path: Path) -> Weights:
    """Open a safetensors file, and check that it has exactly the tensors of the model that `make` builds.

    The model is built without memory, so that no memory is allocated for a configuration before the file is known to
    match it. Raises `CheckpointError` naming the file and the first tensor that doesn't match.
    """
    weights = Weights(path)
    weights.check(shapes(weightless(make)))
    return weights


def weightless(make: Callable[[], Model]) -> Model:
    """Build a model without memory for its parameters, which have shapes only.

    A part of one's own that computes with them when it is built gets memory.
    """
    try:
        with _Weightless():
            return make()
    except (RuntimeError, TypeError):  # what torch and NumPy say of a tensor without memory
        return make()


def load_filled(make: Callable[[], Model], path: Path) -> Model:
    """Build a model and load its parameters from a safetensors file; raises `CheckpointError` like `fitting`."""
    weights = fitting(make, path)
    model = make()
    _fill(dict(model.named_parameters()), weights)
    return model


def load_trained(make: Callable[[], Model], run: Path, device: str, precision: str) -> Model:
    """Build a model and load what a run has trained, in evaluation mode on a device, in a precision.

    Raises `CheckpointError` like `fitting`, `DeviceError` and `ConfigError`.
    """
    where = find_device(device)
    model = load_filled(make, model_file(run))
    model.compute_dtype = find_precision(precision, where)  # type: ignore[assignment]
    return model.to(where).eval()


def _fill(parameters: Mapping[str, Tensor], weights: Weights) -> None:
    """Copy the tensors of these names into a model's parameters; the shapes must have been checked."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            tensor = weights.get(name)
            assert tensor is not None, name
            parameter.copy_(torch.from_numpy(tensor))


def load_encoder(model: HeadedEncoder, path: Path) -> None:
    """Load the parameters of the encoder, without the head, from the file of another `HeadedEncoder`.

    Raises `CheckpointError` naming the file and the first tensor that doesn't match.
    """
    weights = Weights(path)
    parameters = {f"encoder.{name}": parameter for name, parameter in model.encoder.named_parameters()}
    weights.check({name: parameter.shape for name, parameter in parameters.items()}, within="encoder.")
    _fill(parameters, weights)


def load_weights(model: nn.Module, path: Path, new_rows: Mapping[str, Sequence[Sequence[int]]] | None = None) -> None:
    """Load the parameters of an existing model from a safetensors file; shared tensors are stored once.

    `new_rows` names parameters that have more rows than in the file, and gives for each further row the rows of the
    file whose mean it begins with. One without any is drawn from a normal distribution with the mean and deviation of
    the file's rows (Hewitt 2021, "Initializing New Word Embeddings for Pretrained Language Models"). Raises
    `CheckpointError` naming the file and the first tensor that doesn't match.
    """
    weights, more = Weights(path), new_rows or {}
    parameters = dict(model.named_parameters())
    stored = {name: p[: len(p) - len(more[name])] if name in more else p for name, p in parameters.items()}
    weights.check({name: p.shape for name, p in stored.items()})
    _fill(stored, weights)
    with torch.no_grad():
        for name, rows in more.items():
            old = stored[name].double()
            mean, deviation = old.mean(dim=0), old.std(dim=0)
            for index, means_of in enumerate(rows, start=len(old)):
                parameters[name][index] = old[list(means_of)].mean(dim=0) if means_of else torch.normal(mean, deviation)


def load_model(run: Path, source_size: int, target_size: int, config: Config | None = None) -> Seq2Seq:
    """Load the trained model of a run directory, on the CPU, in evaluation mode."""
    run_config = config or Config.of_run(run)
    return load_filled(lambda: build_model(run_config.model, source_size, target_size), model_file(run)).eval()


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's parameters by name."""
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

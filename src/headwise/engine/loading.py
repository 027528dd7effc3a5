"""Choice of the engine and the precision that decode a run.

The engine `pytorch` is the model in `headwise.models`; it supports every model on every device. `native` is
`headwise.native`, for Transformers on the CPU. `auto` takes the native engine where it supports the run.
`LoadedRun.engine` describes the choice and its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.config import Config, ModelConfig
from headwise.engine.native.transformer import NativeTransformer, unsupported
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, fitting, load_model
from headwise.models.weights import read_recipe
from headwise.native.library import PRECISIONS, Library, find_library
from headwise.nn.device import find_device, find_precision, processors
from headwise.nn.multihead import Probed
from headwise.text.tokens.subwords import Subwords

ENGINES = ("auto", "pytorch", "native")
_FORMER_NAMES = {"readable": "pytorch"}


@dataclass(frozen=True)
class EngineOptions:
    """The user's choice of engine.

    Attributes:
        engine: one of `ENGINES`.
        precision: float32, bfloat16, int8, auto for the fastest, or None for the precision of the stored weights.
        device: see `headwise.nn.device.find_device`.
        workers: threads of the native engine, each of which searches its own sentences; 0 for one per processor.
    """

    engine: str = "auto"
    precision: str | None = None
    device: str = "auto"
    workers: int = 0

    def __post_init__(self) -> None:
        """Validate the options; raises `ConfigError`. `readable` is the former name of the engine `pytorch`."""
        object.__setattr__(self, "engine", _FORMER_NAMES.get(self.engine, self.engine))
        if self.engine not in ENGINES:
            raise ConfigError(f"engine: expected one of {', '.join(ENGINES)}, found {self.engine!r}")
        if self.precision not in (None, "auto", *PRECISIONS):
            known = ", ".join(PRECISIONS)
            raise ConfigError(f"precision: expected auto, {known}, found {self.precision!r}")
        if self.workers < 0:
            raise ConfigError(f"workers: expected a whole number of at least 0, found {self.workers}")


@dataclass(frozen=True)
class LoadedRun:
    """A loaded run; `engine` describes its engine and precision and, for PyTorch, why the native one isn't used."""

    model: Seq2Seq
    subwords: Subwords
    config: Config
    engine: str


def open_run(path: Path, options: EngineOptions) -> LoadedRun:
    """Load a run's configuration, subwords and model.

    Raises `CheckpointError` where the run is missing or damaged, and `ConfigError` or `DeviceError` where it doesn't
    support the options.
    """
    config = Config.of_run(path, "translation")
    trained_with = read_recipe(path / "model.safetensors").get("subwords")
    subwords = Subwords.load(path, config.subwords, trained_with)
    library = _find_native(config, options)
    if isinstance(library, Library):
        native = _open_native(path, config, subwords, library, options)
        workers = f"{native.workers} worker{'s' * (native.workers > 1)}"
        engine = f"native engine ({library.variant}), {native.precision}, {workers}"
        return LoadedRun(native, subwords, config, engine)
    if options.precision == "int8":
        raise ConfigError(f"precision: int8 needs the native engine, but {library}")
    device = find_device(options.device)
    dtype = find_precision(options.precision or "float32", device)
    model = load_model(path, subwords.source_size, subwords.target_size, config).to(device)
    model.compute_dtype = dtype
    precision = str(dtype).removeprefix("torch.")
    return LoadedRun(model, subwords, config, f"pytorch engine ({device}), {precision}; native: {library}")


def _find_native(config: Config, options: EngineOptions) -> Library | str:
    """Return the native engine's library, or the reason why it isn't used.

    Raises `ConfigError` where the options require the native engine and it can't be used.
    """
    if options.engine == "pytorch":
        return "--engine pytorch was asked for"
    if options.engine == "auto" and find_device(options.device).type != "cpu":
        library_or_reason: Library | str = "it runs on the CPU, and there is another device"
    elif options.device not in ("auto", "cpu"):
        library_or_reason = f"it runs on the CPU, and the device is {options.device}"
    else:
        library_or_reason = unsupported(config.model) or find_library()
    if options.engine == "native" and isinstance(library_or_reason, str):
        raise ConfigError(f"engine: the native engine can't be used: {library_or_reason}")
    return library_or_reason


def _open_native(
    path: Path, config: Config, subwords: Subwords, library: Library, options: EngineOptions
) -> NativeTransformer:
    """Build the native engine; weights are packed as they are read, so that memory never holds a second copy."""
    sizes = subwords.source_size, subwords.target_size
    weights = fitting(lambda: build_model(config.model, *sizes), path / "model.safetensors")
    precision = "int8" if options.precision == "auto" else options.precision

    def readable() -> Seq2Seq:
        model = load_model(path, *sizes, config)
        model.compute_dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        return model

    native = NativeTransformer(
        config.model,
        *sizes,
        weights.get,
        library=library,
        precision=precision or weights.precision,
        readable=readable,
    )
    native.workers = options.workers or processors()
    return native


def fastest_engine(model: Seq2Seq, config: ModelConfig, subwords: Subwords) -> Seq2Seq:
    """Return what decodes fastest with the parameters that a model has now, in the precision that it computes in.

    This is the native engine, with as many workers as PyTorch has threads, or the model itself where the native engine
    doesn't support it, it isn't on the CPU, or a parameter isn't finite.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if any(p.device.type != "cpu" or not bool(torch.isfinite(p).all()) for p in parameters.values()):
        return model
    library = unsupported(config) or find_library()
    if isinstance(library, str):
        return model
    native = NativeTransformer(
        config,
        subwords.source_size,
        subwords.target_size,
        parameters.get,
        library=library,
        precision="bfloat16" if getattr(model, "compute_dtype", None) == torch.bfloat16 else "float32",
        readable=lambda: model,
    )
    native.workers = torch.get_num_threads()
    return native


def without_probes(model: Seq2Seq) -> Seq2Seq:
    """Remove the probes of a model's attention, which a copy has from its original; return the model."""
    for module in model.modules():
        if isinstance(module, Probed):
            module.probe = module.watch = None
    return model


class ChangeDetector:
    """Detector of changes to a PyTorch model, after which an engine loaded from the same run no longer equals it."""

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        self._versions = self._current_versions()

    def changed(self) -> bool:
        """Whether a parameter was changed or replaced, or a probe is set."""
        has_probe = any(isinstance(module, Probed) and module.inspected for module in self._model.modules())
        return has_probe or self._current_versions() != self._versions

    def _current_versions(self) -> list[tuple[int, int]]:
        return [(id(parameter), parameter._version) for parameter in self._model.parameters()]

"""Choice of the engine and the precision that search a run.

The engine `pytorch` runs the models in `headwise.models`; it supports every model on every device. `native` is
`headwise.engine.native`, for Transformers on the CPU. `auto` takes the native engine where it supports the run. An
engine's description states the choice and its reason. PyTorch is imported only where it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.config import Config
from headwise.engine.base import Engine
from headwise.engine.native.engine import NativeEngine, unsupported
from headwise.engine.native.packing import PackedModel
from headwise.engine.native.shapes import parameter_shapes
from headwise.errors import ConfigError
from headwise.extras import installed, optional_module
from headwise.native.library import PRECISIONS, Library, find_library
from headwise.processes import processors
from headwise.text.tokens.subwords import Subwords
from headwise.weights import Weights, model_file, read_recipe

ENGINES = ("auto", "pytorch", "native")


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
        """Validate the options; raises `ConfigError`."""
        if self.engine not in ENGINES:
            raise ConfigError(
                f"engine: expected one of {', '.join(ENGINES)}, or ray to translate a FILE with -o OUT, "
                f"found {self.engine!r}"
            )
        if self.precision not in (None, "auto", *PRECISIONS):
            known = ", ".join(PRECISIONS)
            raise ConfigError(f"precision: expected auto, {known}, found {self.precision!r}")
        if self.workers < 0:
            raise ConfigError(f"workers: expected a whole number of at least 0, found {self.workers}")


# What the kernel has where PyTorch may find a GPU: drivers of NVIDIA (on WSL, too) and AMD.
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class OpenedRun:
    """A run that is ready to be searched."""

    engine: Engine
    subwords: Subwords
    config: Config


def open_run(path: Path, options: EngineOptions, config: Config | None = None) -> OpenedRun:
    """Load a run's configuration, unless it is given, its subwords and model.

    Raises `CheckpointError` where the run is missing or damaged, and `ConfigError` or `DeviceError` where it doesn't
    support the options.
    """
    config = config or Config.of_run(path, "translation")
    trained_with = read_recipe(model_file(path)).get("subwords")
    subwords = Subwords.load(path, config.subwords, trained_with)
    library = _find_native(config, options)
    if isinstance(library, Library):
        return OpenedRun(_open_native(path, config, subwords, library, options), subwords, config)
    if options.precision == "int8":
        raise ConfigError(f"precision: int8 needs the native engine, but {library}")
    pytorch = _pytorch(f"{path}: the PyTorch engine (native: {library})")
    engine = pytorch.open_engine(path, config, subwords, options.device, options.precision or "float32")
    engine.description += f"; native: {library}"
    return OpenedRun(engine, subwords, config)


def ensemble(engines: Sequence[Engine]) -> Engine:
    """Return one engine, or that of the models of several, the native one if it supports all of them.

    Raises `ConfigError` for vocabularies of other sizes.
    """
    if len(engines) == 1:
        return engines[0]
    native = [engine for engine in engines if isinstance(engine, NativeEngine)]
    if len(native) == len(engines):
        return NativeEngine(
            [model for engine in native for model in engine.models],
            open_pytorch=lambda: _pytorch("a look into the models").ensemble(engines),
            workers=native[0].workers,
        )
    other = next(engine for engine in engines if not isinstance(engine, NativeEngine))
    return _pytorch("an ensemble of these models").ensemble(engines, other.description)


def _pytorch(user: str) -> Any:
    """Return the module of the PyTorch engine, by name: what is above imports it, and PyTorch takes a second.

    Raises `ConfigError` that says what needs it where PyTorch isn't installed.
    """
    return optional_module("headwise.decoding.engine", user)


def _find_native(config: Config, options: EngineOptions) -> Library | str:
    """Return the native engine's library, or the reason why it isn't used.

    Raises `ConfigError` where the options require the native engine and it can't be used.
    """
    if options.engine == "pytorch":
        return "--engine pytorch was asked for"
    if options.engine == "auto" and device_kind(options.device) != "cpu":
        library_or_reason: Library | str = "it runs on the CPU, and there is another device"
    elif options.device not in ("auto", "cpu"):
        library_or_reason = f"it runs on the CPU, and the device is {options.device}"
    else:
        library_or_reason = unsupported(config.model) or find_library()
    if options.engine == "native" and isinstance(library_or_reason, str):
        raise ConfigError(f"engine: the native engine can't be used: {library_or_reason}")
    return library_or_reason


def device_kind(name: str) -> str:
    """Return the kind of a device, or of the one that `auto` chooses; raises `DeviceError` if it isn't available.

    PyTorch is asked only where it may know another device than the CPU: not on Linux where no GPU has a driver.
    """
    possible = sys.platform != "linux" or any(Path(driver).exists() for driver in _GPU_DRIVERS)
    if name == "cpu" or (name == "auto" and not (possible and installed("torch"))):
        return "cpu"
    return optional_module("headwise.nn.device", f"device {name}").find_device(name).type


def _open_native(
    path: Path, config: Config, subwords: Subwords, library: Library, options: EngineOptions
) -> NativeEngine:
    """Build the native engine; weights are packed as they are read, so that memory never holds a second copy."""
    model, sizes = config.model, (subwords.source_size, subwords.target_size)
    weights = Weights(model_file(path))
    model.check_keys(model.architecture, f"architecture {model.architecture}")
    model.check_vocabularies(*sizes)
    weights.check(parameter_shapes(model, *sizes))
    precision = "int8" if options.precision == "auto" else options.precision
    read_in = "bfloat16" if precision == "bfloat16" else "float32"  # of stored bfloat16, too
    packed = PackedModel(model, *sizes, weights.get, library=library, precision=precision or weights.precision)
    return NativeEngine(
        [packed],
        open_pytorch=lambda: _pytorch("a look into the model").open_engine(path, config, subwords, "cpu", read_in),
        workers=options.workers or processors(),
    )

"""Which engine decodes a run, and in which precision: the fastest that gives the right results, and never in silence.

`pytorch` is the model as it is written in `headwise.models`; it runs every model everywhere. `native` is
`headwise.decoding.native`, for Transformers on the CPU. `auto` takes the native one where it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.config import Config
from headwise.decoding.native.library import PRECISIONS, Library, find_library
from headwise.decoding.native.transformer import NativeTransformer, unsupported
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, fitting, load_model
from headwise.models.weights import read_recipe
from headwise.nn.device import find_device, find_precision, processors
from headwise.nn.multihead import Probed
from headwise.text.tokens.subwords import Subwords

ENGINES = ("auto", "pytorch", "native")
_FORMER_NAMES = {"readable": "pytorch"}


@dataclass(frozen=True)
class EngineOptions:
    """What a user asks for.

    Attributes:
        engine: one of `ENGINES`.
        precision: float32, bfloat16, int8, auto for the fastest, or None for what the run is stored in.
        device: see `headwise.nn.device.find_device`.
        workers: threads that each search sentences of their own (native engine); 0 for one a processor.
    """

    engine: str = "auto"
    precision: str | None = None
    device: str = "auto"
    workers: int = 0

    def __post_init__(self) -> None:
        """Check the names, of which `readable` is `pytorch`'s former one; raises `ConfigError`."""
        object.__setattr__(self, "engine", _FORMER_NAMES.get(self.engine, self.engine))
        if self.engine not in ENGINES:
            raise ConfigError(f"engine: expected one of {', '.join(ENGINES)}, found {self.engine!r}")
        if self.precision not in (None, "auto", *PRECISIONS):
            known = ", ".join(PRECISIONS)
            raise ConfigError(f"precision: expected auto, {known}, found {self.precision!r}")
        if self.workers < 0:
            raise ConfigError(f"workers: expected a whole number of at least 0, found {self.workers}")


@dataclass(frozen=True)
class Opened:
    """A run made ready to decode; `engine` says in a phrase with what, and why not faster."""

    model: Seq2Seq
    subwords: Subwords
    config: Config
    engine: str


def open_run(path: Path, options: EngineOptions) -> Opened:
    """Load a run's subwords and model.

    Raises `CheckpointError` where the run is missing or damaged, and `ConfigError` or `DeviceError` where it can't be
    decoded as asked.
    """
    config = Config.of_run(path, "translation")
    trained_with = read_recipe(path / "model.safetensors").get("subwords")
    subwords = Subwords.load(path, config.subwords, trained_with)
    library = _native(config, options)
    if isinstance(library, Library):
        native = _open_native(path, config, subwords, library, options)
        workers = f"{native.workers} worker{'s' * (native.workers > 1)}"
        engine = f"native engine ({library.variant}), {native.precision}, {workers}"
        return Opened(native, subwords, config, engine)
    if options.precision == "int8":
        raise ConfigError(f"precision: int8 needs the native engine, but {library}")
    device = find_device(options.device)
    dtype = find_precision(options.precision or "float32", device)
    model = load_model(path, subwords.source_size, subwords.target_size, config).to(device)
    model.compute_dtype = dtype
    precision = str(dtype).removeprefix("torch.")
    return Opened(model, subwords, config, f"pytorch engine ({device}), {precision}; native: {library}")


def _native(config: Config, options: EngineOptions) -> Library | str:
    """Return the native engine's library, or why it isn't used; raises where it was asked for by name."""
    if options.engine == "pytorch":
        return "--engine pytorch was asked for"
    if options.engine == "auto" and find_device(options.device).type != "cpu":
        found: Library | str = "it runs on the CPU, and there is another device"
    elif options.device not in ("auto", "cpu"):
        found = f"it runs on the CPU, and the device is {options.device}"
    else:
        found = unsupported(config.model) or find_library()
    if options.engine == "native" and isinstance(found, str):
        raise ConfigError(f"engine: the native engine can't be used: {found}")
    return found


def _open_native(
    path: Path, config: Config, subwords: Subwords, library: Library, options: EngineOptions
) -> NativeTransformer:
    """Pack the weights as they are read, so that no second copy of them is ever held."""
    sizes = subwords.source_size, subwords.target_size
    weights = fitting(lambda: build_model(config.model, *sizes), path / "model.safetensors")
    wanted = "int8" if options.precision == "auto" else options.precision

    def readable() -> Seq2Seq:
        model = load_model(path, *sizes, config)
        model.compute_dtype = torch.bfloat16 if wanted == "bfloat16" else torch.float32
        return model

    native = NativeTransformer(
        config.model,
        *sizes,
        weights.get,
        library=library,
        precision=wanted or weights.precision,
        readable=readable,
    )
    native.workers = options.workers or processors()
    return native


class Watch:
    """Tells whether a readable model is still what was loaded, so that an engine may stand for it."""

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        self._versions = self._now()

    def touched(self) -> bool:
        """Tell whether a parameter was changed or replaced, or a probe set."""
        probed = any(isinstance(part, Probed) and part.probe is not None for part in self._model.modules())
        return probed or self._now() != self._versions

    def _now(self) -> list[tuple[int, int]]:
        return [(id(parameter), parameter._version) for parameter in self._model.parameters()]

"""The runs that are served: what each can do, loaded when there is something to load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from headwise.analysis.interventions import attention_parts, heads_of
from headwise.analysis.tracer import Tracer
from headwise.analysis.viewer import TASKS, Viewer, open_viewer
from headwise.config import Config
from headwise.decoding.generation import Generator
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError, ConfigError, DataError, HeadwiseError
from headwise.models.counting import parameter_count
from headwise.nn.multihead import MultiHeadAttention
from headwise.text.reading.pairs import CleaningReport, Pair, clean_pairs, development_files, read_pairs

SAMPLES = 6  # sentences of the development data that are offered to look into
_SAMPLE_WORDS = range(4, 17)
_SAMPLES_FROM = 200  # pairs


class NotReady(HeadwiseError):
    """A run has no model yet, as it is still in training."""


def _load_tracer(path: Path, device: str) -> Tracer:
    return Tracer(Translator.load(path, device=device))


def _load_generator(path: Path, device: str) -> Generator:
    return Generator.load(path, device=device)


def _load_viewer(path: Path, device: str) -> Viewer:
    return open_viewer(path, Config.of_run(path, *TASKS), device)


Model = Tracer | Generator | Viewer
_Kind = TypeVar("_Kind", Tracer, Generator, Viewer)

# A task whose runs can be shown is one line here, an answer in `answers.py`, and a panel of the page.
_LOADERS: dict[str, Callable[[Path, str], Model]] = {
    "translation": _load_tracer,
    "language_model": _load_generator,
    **dict.fromkeys(TASKS, _load_viewer),
}


@dataclass
class Run:
    """One run directory under a name of its own.

    A run in training has no model.safetensors; it is served for its curves, and its model once there is one.
    """

    name: str
    path: Path
    config: Config
    device: str = "auto"
    _model: Model | None = None
    _samples: list[str] | None = None
    _loading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ready(self) -> bool:
        """Whether there is a model."""
        return self._model is not None or (self.path / "model.safetensors").is_file()

    def _loaded(self) -> Model:
        """Load the model when it is first asked for."""
        with self._loading:
            if self._model is None:
                if not self.ready:
                    raise NotReady(
                        f"{self.name}: expected a model, found none yet: {self.path} is still in training"
                    )
                self._model = _LOADERS[self.config.task](self.path, self.device)
            return self._model

    def _loaded_as(self, kind: type[_Kind], task: str) -> _Kind:
        model = self._loaded()
        if not isinstance(model, kind):
            raise ConfigError(f"{self.name}: expected a run of the task {task}, found {self.config.task}")
        return model

    @property
    def tracer(self) -> Tracer:
        """The translator, to look into; raises `NotReady` where there is none yet, `ConfigError` for another task."""
        return self._loaded_as(Tracer, "translation")

    @property
    def generator(self) -> Generator:
        """The language model; raises as `tracer`."""
        return self._loaded_as(Generator, "language_model")

    @property
    def viewer(self) -> Viewer:
        """The model of images; raises as `tracer`."""
        return self._loaded_as(Viewer, " or ".join(TASKS))

    def load(self) -> None:
        """Load the model if there is one, so that mistakes show now."""
        if self.ready:
            self._loaded()

    def translator(self) -> Translator:
        """Return the model and its subwords; raises as `tracer` does."""
        return self.tracer.translator

    def describe(self) -> dict[str, Any]:
        """Say what the run is and can do, for the page; what it can't do is false in `can`."""
        described: dict[str, Any] = {
            "name": self.name,
            "task": self.config.task,
            "architecture": self.config.model.architecture,
            "can": {"translate": False, "products": False, "language_model": False, "vision": False},
            "languages": _languages(self.config),
        }
        if not self.ready:
            return described
        model = self._loaded()
        if isinstance(model, Generator):
            described["can"]["language_model"] = True
            return described | {"parameters": parameter_count(model.model)}
        if isinstance(model, Viewer):
            described["can"]["vision"] = True
            return described | _described_viewer(model)
        return described | self._described(described["can"])

    def _described(self, can: dict[str, bool]) -> dict[str, Any]:
        """Say what a translator consists of, and what can be asked of it."""
        tracer = self.tracer
        model, options = tracer.translator.model, tracer.translator.options
        parts = attention_parts(model)
        multihead = [a for found in parts.values() for a in found if isinstance(a, MultiHeadAttention)]
        return {
            "can": {**can, "translate": True, "products": bool(multihead)},
            "parts": {
                part: {"layers": len(found), "heads": heads_of(found[0])}
                for part, found in parts.items()
                if found
            },
            "key_size": multihead[0].key_size if multihead else None,
            "d_model": self.config.model.d_model,
            "parameters": parameter_count(model),
            "subwords": tracer.translator.subwords.target_size,
            "beam": options.beam,
            "alpha": options.alpha,
            "longest": tracer.longest,
            "samples": self.samples,
        }

    @property
    def samples(self) -> list[str]:
        """Some sentences to begin with: of the development data where it is there, none otherwise."""
        if self._samples is None:
            fitting = [
                pair.source for pair in self.pairs(_SAMPLES_FROM) if len(pair.source.split()) in _SAMPLE_WORDS
            ]
            self._samples = fitting[:: max(1, len(fitting) // SAMPLES)][:SAMPLES]
        return self._samples

    def pairs(self, most: int) -> list[Pair]:
        """Return the first pairs of the development data that the run names, none where it isn't there any more."""
        if self.config.task != "translation":
            return []
        files = development_files(self.config.data)
        if files is None:
            return []
        try:
            data = self.config.data
            return list(
                islice(
                    clean_pairs(
                        read_pairs(files, data.source_field, data.target_field),
                        data.cleaning,
                        CleaningReport(),
                    ),
                    most,
                )
            )
        except DataError:
            return []


def _described_viewer(viewer: Viewer) -> dict[str, Any]:
    """Say what a model of images consists of, and how many there are to look at."""
    attentions = [module for module in viewer.vision.modules() if isinstance(module, MultiHeadAttention)]
    parts = {"encoder": {"layers": len(attentions), "heads": attentions[0].heads}} if attentions else {}
    return {
        "parts": parts,
        "parameters": parameter_count(viewer.model),
        "images": len(viewer),
        "shape": viewer.shape,
        "classes": viewer.classes,
    }


def open_runs(paths: Sequence[Path], device: str = "auto") -> dict[str, Run]:
    """Open run directories under their own names, `name`, `name-2`, …; models are loaded, so that mistakes show now.

    Raises a `HeadwiseError` for a directory that is no run, for a damaged one, and for a task without a view.
    """
    runs: dict[str, Run] = {}
    for path in paths:
        if not path.is_dir():
            raise CheckpointError(f"{path}: expected a run directory, found none")
        config = Config.load(path / "config.yaml")
        if config.task not in _LOADERS:
            raise ConfigError(
                f"{path}: expected a run of the task {' or '.join(_LOADERS)}, found {config.task}, which has no view"
            )
        name = _unused(path.resolve().name, runs)
        runs[name] = Run(name, path, config, device)
        runs[name].load()
    return runs


def _unused(name: str, taken: dict[str, Run]) -> str:
    """Number a name that there is already."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _languages(config: Config) -> dict[str, str | None]:
    """Read the languages off the training files' names (`train.en`, `train.de.gz`); None where these don't tell."""
    return {"source": _language(config.data.source), "target": _language(config.data.target)}


def _language(files: Sequence[str]) -> str | None:
    for file in files:
        ending = Path(file.removesuffix(".gz")).suffix[1:]
        if ending.isascii() and ending.isalpha() and ending.islower() and len(ending) == 2:
            return ending
    return None

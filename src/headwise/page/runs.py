"""The runs that are served: their models, loaded once there are any, and their descriptions for the page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from headwise.analysis.interventions import attention_parts, heads_of
from headwise.analysis.language_models import LanguageModelTracer, MaskedModelTracer, TextTracer
from headwise.analysis.tracer import Tracer
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.analysis.viewer import TASKS, ClassifierViewer, Viewer, open_viewer
from headwise.config import Config
from headwise.decoding.generation import Generator
from headwise.engine.translator import Translator
from headwise.errors import ConfigError, DataError
from headwise.models.counting import parameter_count
from headwise.nn.multihead import MultiHeadAttention
from headwise.text.reading.lines import open_text, text_lines
from headwise.text.reading.pairs import CleaningReport, Pair, clean_pairs, development_files, read_pairs
from headwise.web.errors import NotReady

SAMPLES = 6  # sentences of the development set that the page suggests
_SAMPLE_WORDS = range(4, 17)  # words of such a sentence
_SAMPLES_FROM = 200  # sentence pairs they are chosen from
_MOST_EXAMPLES, _LONGEST_EXAMPLE = 20, 300  # lines of the file of examples, and their bytes


def _load_tracer(run: Run) -> TranslationTracer:
    return TranslationTracer.load(run.path, run.device, run.threads)


def _load_generator(run: Run) -> Generator:
    return Generator.load(run.path, device=run.device)


def _load_viewer(run: Run) -> Viewer:
    return open_viewer(run.path, Config.of_run(run.path, *TASKS), run.device)


def _load_masked(run: Run) -> MaskedModelTracer:
    return MaskedModelTracer.load(run.path, run.device)


Model = TranslationTracer | Generator | MaskedModelTracer | Viewer
_Kind = TypeVar("_Kind", TranslationTracer, Generator, MaskedModelTracer, Viewer)

# Another task needs a line here, a branch of `Run.describe`, a route in `routes.py` and a panel of the page.
_LOADERS: dict[str, Callable[[Run], Model]] = {
    "translation": _load_tracer,
    "language_model": _load_generator,
    "masked_language_model": _load_masked,
    **dict.fromkeys(TASKS, _load_viewer),
}


# What a run can show: translation, attention weights, a head's products, the steps of decoding, boxes, parts of the
# model switched off, recurrence beside attention, statistics over many sentences, a language model's next token,
# images, and training curves.
CAPABILITIES = (
    *("translate", "read", "products", "steps", "boxes", "switches", "recurrence", "evidence"),
    *("language_model", "vision", "metrics"),
)


@dataclass
class Run:
    """A run directory that is served under a unique name.

    A run in training has no model.safetensors: only its training curves are served until the file exists. `threads`
    are those of the native engine, 0 for one per processor.
    """

    name: str
    path: Path
    config: Config
    device: str = "auto"
    threads: int = 0
    _model: Model | None = None
    _translators: tuple[Translator, Translator | None] | None = None
    _samples: list[str] | None = None
    _load_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ready(self) -> bool:
        """Whether the run has a model."""
        return self._model is not None or (self.path / "model.safetensors").is_file()

    def _loaded(self) -> Model:
        """Return the model; it is loaded at the first call. Raises `NotReady` if there is none yet."""
        with self._load_lock:
            if self._model is None:
                if not self.ready:
                    raise NotReady(
                        f"{self.name}: expected a model, found none yet: {self.path} is still in training"
                    )
                self._model = _LOADERS[self.config.task](self)
            return self._model

    def _loaded_as(self, kind: type[_Kind], task: str) -> _Kind:
        model = self._loaded()
        if not isinstance(model, kind):
            raise ConfigError(f"{self.name}: expected a run of the task {task}, found {self.config.task}")
        return model

    @property
    def tracer(self) -> TranslationTracer:
        """The translator's tracer; raises `NotReady` if there is no model yet, `ConfigError` for another task."""
        return self._loaded_as(TranslationTracer, "translation")

    @property
    def reader(self) -> Tracer:
        """The tracer of a translator or of a model of one text; raises as `tracer`."""
        model = self._loaded()
        if isinstance(model, Generator):
            return LanguageModelTracer(model)
        return model if isinstance(model, TextTracer) else self.tracer

    @property
    def generator(self) -> Generator:
        """The language model; raises as `tracer`."""
        return self._loaded_as(Generator, "language_model")

    @property
    def viewer(self) -> Viewer:
        """The vision model's viewer; raises as `tracer`."""
        return self._loaded_as(Viewer, " or ".join(TASKS))

    def load(self) -> None:
        """Load the model if there is one, so that its errors are raised now."""
        if self.ready:
            self._loaded()

    def reload(self) -> None:
        """Load the run's files anew; raises a `HeadwiseError`, and keeps the model, where they aren't a run's."""
        config = Config.of_run(self.path)
        if config.task != self.config.task:
            raise ConfigError(
                f"{self.path}: expected a run of the task {self.config.task}, found {config.task}"
            )
        model = _LOADERS[config.task](self)
        with self._load_lock:
            self.config, self._model, self._samples, self._translators = config, model, None, None

    def translator(self) -> Translator:
        """Return the translator: the model and its subwords; raises as `tracer`."""
        return self.tracer.translator

    def translators(self) -> tuple[Translator, Translator | None]:
        """Return a translator for clients, and a second one that reads attention if `share` has made it."""
        return self._translators or (self.translator().twin(), None)

    def share(self) -> None:
        """Make the translators for clients with all their weights, which processes forked from this one then share."""
        if self.config.task == "translation" and self.ready:
            translator = self.translator().twin()
            reader = translator.twin()
            _ = reader.model
            self._translators = translator, reader

    def describe(self) -> dict[str, Any]:
        """Return the run's description for the page; `can` holds its capabilities as booleans."""
        description: dict[str, Any] = {
            "name": self.name,
            "task": self.config.task,
            "architecture": self.config.model.architecture,
            "can": {**dict.fromkeys(CAPABILITIES, False), "metrics": True},
            "languages": dict(zip(("source", "target"), self.config.data.languages, strict=True)),
        }
        if not self.ready:
            return description
        model = self._loaded()
        if isinstance(model, Generator):
            description["can"]["language_model"] = True
            return description | self._describe_stack(LanguageModelTracer(model), description["can"])
        if isinstance(model, MaskedModelTracer):
            return description | self._describe_stack(model, description["can"])
        if isinstance(model, Viewer):
            description["can"]["vision"] = True
            description["can"]["boxes"] = isinstance(model, ClassifierViewer)
            return description | _describe_viewer(model)
        return description | self._describe_translator(description["can"])

    def _describe_stack(self, tracer: TextTracer, can: dict[str, bool]) -> dict[str, Any]:
        """Return the part of a model of one text, whose heads the page shows if it has attention weights."""
        parts = _parts_of(tracer.trained)
        multihead = [m for m in tracer.trained.modules() if isinstance(m, MultiHeadAttention)]
        return {
            "can": {
                **can,
                "read": bool(parts),
                "products": bool(multihead),
                "switches": True,
                "boxes": True,
                "recurrence": True,
            },
            "parts": parts,
            "key_size": multihead[0].key_size if multihead else None,
            "d_model": self.config.model.d_model,
            "parameters": parameter_count(tracer.trained),
            "subwords": tracer.vocabulary.size,
            "longest": tracer.longest,
        }

    def _describe_translator(self, can: dict[str, bool]) -> dict[str, Any]:
        """Return the parts of a translator, its decoding options and what requests it can answer."""
        tracer = self.tracer
        model, options = tracer.translator.model, tracer.translator.options
        parts = attention_parts(model)
        multihead = [a for layers in parts.values() for a in layers if isinstance(a, MultiHeadAttention)]
        return {
            "can": {
                **can,
                **dict.fromkeys(("translate", "steps", "recurrence", "evidence"), True),
                "read": any(parts.values()),
                "products": bool(multihead),
                **dict.fromkeys(("boxes", "switches"), self.config.model.architecture == "transformer"),
            },
            "parts": _parts_of(model),
            "key_size": multihead[0].key_size if multihead else None,
            "d_model": self.config.model.d_model,
            "parameters": parameter_count(model),
            "subwords": tracer.translator.subwords.target_size,
            "beam": options.beam,
            "alpha": options.alpha,
            "longest": tracer.longest,
            "samples": self.samples,
            "checkpoints": tracer.history.steps() if tracer.history else [],
        }

    @property
    def samples(self) -> list[str]:
        """Sentences that the page suggests; none if the development set's files no longer exist.

        First those of the file `examples` beside the development set, such as `examples.en` beside `dev.en`, if there
        is one; then some of the development set.
        """
        if self._samples is None:
            candidates = [
                pair.source for pair in self.pairs(_SAMPLES_FROM) if len(pair.source.split()) in _SAMPLE_WORDS
            ]
            samples = candidates[:: max(1, len(candidates) // SAMPLES)][:SAMPLES]
            self._samples = [*self._examples(), *samples]
        return self._samples

    def _examples(self) -> list[str]:
        """Return the lines of the file of examples, if there is one that can be read."""
        source = Path(self.config.data.dev_source or "dev")
        file = source.with_name(f"examples{source.suffix}")
        if not file.is_file():
            return []
        try:
            with open_text(file) as opened:
                lines = islice(text_lines(file, opened), _MOST_EXAMPLES)
                return [line.decode() for line in lines if 0 < len(line) <= _LONGEST_EXAMPLE]
        except (DataError, UnicodeDecodeError):
            return []

    def pairs(self, most: int) -> list[Pair]:
        """Return the first `most` sentence pairs of the run's development set; none if its files no longer exist."""
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


def _parts_of(model: nn.Module) -> dict[str, dict[str, int]]:
    """Return the numbers of layers and heads of each part that a model has."""
    return {
        part: {"layers": len(layers), "heads": heads_of(layers[0])}
        for part, layers in attention_parts(model).items()
        if layers
    }


def _describe_viewer(viewer: Viewer) -> dict[str, Any]:
    """Return the parts of a vision model, its image shape and its number of held-out images."""
    attentions = [module for module in viewer.vision.modules() if isinstance(module, MultiHeadAttention)]
    parts = {"encoder": {"layers": len(attentions), "heads": attentions[0].heads}} if attentions else {}
    return {
        "parts": parts,
        "parameters": parameter_count(viewer.model),
        "images": len(viewer),
        "shape": viewer.shape,
        "classes": viewer.classes,
    }


def open_runs(paths: Sequence[Path], device: str = "auto", threads: int = 0) -> dict[str, Run]:
    """Open run directories under unique names (`name`, `name-2`, …) and load their models; `threads` as in `Run`.

    Raises a `HeadwiseError` for a directory that is not a run, for a damaged run, and for a task without a view.
    """
    runs: dict[str, Run] = {}
    for path in paths:
        config = Config.of_run(path)
        if config.task not in _LOADERS:
            raise ConfigError(
                f"{path}: expected a run of the task {' or '.join(_LOADERS)}, found {config.task}, which has no view"
            )
        name = _unique_name(path.resolve().name, runs)
        runs[name] = Run(name, path, config, device, threads)
        runs[name].load()
    return runs


def _unique_name(name: str, taken: dict[str, Run]) -> str:
    """Return the name, with a number appended if it is taken already."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique

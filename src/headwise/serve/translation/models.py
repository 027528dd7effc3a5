"""The models that are served, by their languages, and the way from one language to another."""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections import Counter
from collections.abc import Iterable

from headwise.config.languages import short_code
from headwise.engine.scheduling.load import Load
from headwise.engine.scheduling.scheduler import Scheduler
from headwise.engine.translator import Translator
from headwise.web.errors import ServiceError

_PREFERRED_PIVOT = "en"
# Other codes of the same language: Argos Translate's, Norwegian's, and those of DeepL's scripts and regions.
_SAME = {"no": "nb", "nb": "no", "zh-hans": "zh", "zh-hant": "zt", "zh-tw": "zt", "pt-br": "pb"}


class Model:
    """A loaded translation run, its languages, and the scheduler of its sentences.

    `reading` is held while the translator scores or aligns, with the PyTorch model: one request at a time.
    """

    def __init__(self, name: str, source: str, target: str, translator: Translator) -> None:
        """Use a loaded run."""
        self.name, self.source, self.target, self.translator = name, source, target, translator
        self.scheduler = _scheduler(translator)
        self.further_schedulers: list[Scheduler] = []  # of languages with one of their own
        self.reading = asyncio.Lock()
        # Sentences with the guard's second search, by its outcome.
        self.searched_again: Counter[str] = Counter()

    @property
    def load(self) -> Load:
        """What waits and runs in all target languages, and the speed."""
        load = self.scheduler.load
        for scheduler in self.further_schedulers:
            load += scheduler.load
        return load

    def by_target(self) -> dict[str, Model]:
        """Return the model for each of the languages that it translates to, by their codes."""
        vocabulary = self.translator.subwords.vocabulary
        codes = {} if vocabulary is None else vocabulary.languages_by_code
        chosen = "" if vocabulary is None else vocabulary.language
        further: dict[str, Model] = {
            code: self if piece == chosen else InLanguage(self, code, piece)
            for code, piece in codes.items()
            if code != self.source
        }
        return {self.target: self} | further


class InLanguage(Model):
    """A model with another target language, which a code of its vocabulary names.

    The weights and what counts are the model's, and so is the scheduler where the code is in the source text. All else
    is made at the first use, as a vocabulary may have a hundred languages.
    """

    def __init__(self, model: Model, target: str, piece: str) -> None:
        self._model, self._piece = model, piece
        self.name, self.source, self.target = model.name, model.source, target
        self.reading, self.searched_again = model.reading, model.searched_again

    @functools.cached_property
    def translator(self) -> Translator:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The model's translator with the language's code."""
        return self._model.translator.in_language(self._piece)

    @functools.cached_property
    def scheduler(self) -> Scheduler:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The model's scheduler, or one of its own where outputs begin with the code."""
        if self.translator.symbols == self._model.translator.symbols:
            return self._model.scheduler
        scheduler = _scheduler(self.translator)
        self._model.further_schedulers.append(scheduler)
        return scheduler

    @property
    def load(self) -> Load:
        """That of the model."""
        return self._model.load


def target_of(translator: Translator) -> str | None:
    """Return the language that a run translates to, as its vocabulary's codes say; None where it has no codes."""
    vocabulary = translator.subwords.vocabulary
    if vocabulary is None:
        return None
    return vocabulary.language_code or next(iter(vocabulary.languages_by_code), None)


def _scheduler(translator: Translator) -> Scheduler:
    return Scheduler(translator.engine, translator.symbols, batch_tokens=translator.batch_tokens)


class ServedModels:
    """The served models; of several for the same languages, the first is used unless another is named."""

    def __init__(self, models: Iterable[Model]) -> None:
        self.all: list[Model] = []
        self._by_target: dict[Model, dict[str, Model]] = {}
        self._use(models)

    def renew(self, model: Model) -> None:
        """Use a model from now on: in place of the one with its name, or as a further one."""
        before = [one for one in self.all if one.name == model.name]
        if before:
            model.searched_again = before[0].searched_again
            self._use(model if one in before else one for one in self.all)
        else:
            self._use([*self.all, model])
        for one in before:
            # It is closed when the last request that uses it has ended, as nothing refers to it then.
            weakref.finalize(one, _close, one.scheduler, one.further_schedulers)

    def _use(self, models: Iterable[Model]) -> None:
        self.all = list(models)
        known = self._by_target
        self._by_target = {model: known.get(model) or model.by_target() for model in self.all}
        self._by_pair = {
            (model.source, target): one
            for model in reversed(self.all)
            for target, one in self._by_target[model].items()
        }
        # Codes of the languages that are translated from and to, in alphabetical order.
        self.sources = sorted({source for source, _ in self._by_pair})
        self.targets = sorted({target for _, target in self._by_pair})

    def targets_of(self, source: str) -> list[str]:
        """Return the languages that a language is translated to, directly or over another one."""
        direct = {target for first, target in self._by_pair if first == source}
        further = {target for first, target in self._by_pair if first in direct and target != source}
        return sorted(direct | further)

    def all_targets(self, model: Model) -> list[str]:
        """Return the languages that a served model translates to."""
        return sorted(self._by_target[model])

    def named(self, name: str, target: str = "") -> Model:
        """Return a model by its name, with a target language if one is given; raises `ServiceError` (400)."""
        for model, targets in self._by_target.items():  # one value, as another thread may `renew` a model meanwhile
            if model.name == name:
                return targets[self._known(target, sorted(targets), "target")] if target else model
        known = ", ".join(model.name for model in self.all) or "none"
        raise ServiceError(400, f"model: expected one of {known}, found {name[:80]!r}")

    def route(self, source: str, target: str) -> list[Model]:
        """Return the models from a language to another: one, two over a common language, or none from it to itself.

        Raises `ServiceError` (400) where a language or the pair isn't served.
        """
        first, last = self._known(source, self.sources, "source"), self._known(target, self.targets, "target")
        if (first, last) in self._by_pair:
            return [self._by_pair[first, last]]
        if first == last:
            return []
        pivots = sorted(
            (middle for start, middle in self._by_pair if start == first and (middle, last) in self._by_pair),
            key=lambda code: (code != _PREFERRED_PIVOT, code),
        )
        if not pivots:
            known = ", ".join(self.targets_of(first))
            raise ServiceError(400, f"target: expected one of {known} for source {first}, found {last}")
        return [self._by_pair[first, pivots[0]], self._by_pair[pivots[0], last]]

    def source(self, code: str) -> str:
        """Return the served source language that a code means; raises `ServiceError` (400)."""
        return self._known(code, self.sources, "source")

    def target(self, code: str) -> str:
        """Return the served target language that a code means; raises `ServiceError` (400)."""
        return self._known(code, self.targets, "target")

    @staticmethod
    def _known(code: str, served: list[str], what: str) -> str:
        """Return the served code that is meant: itself, a synonym, or the language without its region."""
        if code in served:
            return code
        lower = code.lower().replace("_", "-")
        by_lower = {one.lower(): one for one in served}
        base = lower.partition("-")[0]
        for candidate in (lower, _SAME.get(lower), short_code(lower).lower(), base, _SAME.get(base)):
            if candidate in by_lower:
                return by_lower[candidate]
        raise ServiceError(400, f"{what}: expected one of {', '.join(served) or 'no language'}, found {code[:40]!r}")


def _close(scheduler: Scheduler, further: list[Scheduler]) -> None:
    """End schedulers that have nothing to do, in another thread, as their own are waited for."""
    for one in (scheduler, *further):
        threading.Thread(target=one.close, kwargs={"finish": True}, name="closing a model").start()

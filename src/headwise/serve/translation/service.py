"""The service: texts are split, all their sentences are submitted at once, and the translations are joined.

    texts → language → models (one, or two over a common language) → sentences → scheduler → texts

A request is refused before it is computed where it is too long or too much waits; a request that was accepted is
finished, unless its deadline passes or its client leaves, in which case its sentences are removed from the scheduler.
"""

from __future__ import annotations

import asyncio
import math
import time
import weakref
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headwise.config.languages import is_latin
from headwise.documents.preparation import ParsedText, PreparedDocument, put_messages, read
from headwise.documents.rendering import Rendered, render
from headwise.documents.rules import TagRules
from headwise.documents.segments import Mode
from headwise.documents.sentence import Sentence
from headwise.engine.options import SearchOptions
from headwise.engine.outputs import Output, Translation
from headwise.engine.readings.number_marks import number_writer
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.translation.models import Model, ServedModels
from headwise.serve.translation.searching import Search, Searched, translate
from headwise.serve.translation.shared_load import SharedLoad
from headwise.serve.translation.waiting import all_of, alone, away, deadline
from headwise.text.reading.detection import Detected, detect, surely
from headwise.text.reading.glossary import Glossary
from headwise.web.errors import ServiceError

_MOMENT = 0.05  # seconds in which the estimate of how long requests wait isn't made again
Event = tuple[str, dict[str, Any]]  # its kind and its data
_Place = tuple[int, int]  # of a sentence: its text and its number in that


@dataclass(frozen=True)
class TranslationJob:
    """What a request asks for.

    Attributes:
        texts: the texts.
        target: the language to translate to.
        source: the texts' language; None to detect it, for each text.
        model: the name of the model to use, whatever the languages.
        mode: where texts are split into sentences.
        options: changed search options, such as beam and n_best.
        prefixes: for each text the text with which its translation begins.
        alignments: whether the outputs have word alignments.
        client: whose request it is: clients share the scheduler fairly.
        glossary: terms whose translations must be in the texts' translations.
        tags: how the tags of documents are handled; None for texts without tags.
        protect: whether URLs, placeholders and the like must arrive as they are.
    """

    texts: list[str]
    target: str
    source: str | None = None
    model: str | None = None
    mode: Mode = "all"
    options: dict[str, Any] = field(default_factory=dict)
    prefixes: list[str] | None = None
    alignments: bool = False
    client: str = ""
    glossary: Glossary | None = None
    tags: TagRules | None = None
    protect: bool = True

    def parsed(self, text: str) -> ParsedText:
        """Parse one of its texts; raises `DataError` as `headwise.documents.preparation.read`."""
        return read(text, self.mode, self.tags, protect=self.protect)


@dataclass(frozen=True)
class TranslatedText:
    """The translation of a text.

    Attributes:
        text: the best translation.
        alternatives: further ones, without doubles: the sentences' hypotheses rank by rank.
        source: its language, as given or detected.
        detected: what was detected; None where the language was given.
        models: the models that were used, in order.
        sentences: its sentences, with all their outputs by the last of the models.
    """

    text: str
    alternatives: list[str]
    source: str
    detected: Detected | None
    models: list[Model]
    sentences: Sequence[Rendered[Translation]]

    @property
    def warnings(self) -> list[str]:
        """Sentences about what the translation lacks or lacked, without doubles."""
        found = [
            *(each.translation.warnings for each in self.sentences),
            *(each.warnings for each in self.sentences),
        ]
        return list(dict.fromkeys(warning for some in found for warning in some))

    @property
    def pivot(self) -> str | None:
        """The language between source and target, if there is no model for the two."""
        return self.models[0].target if len(self.models) > 1 else None


@dataclass(frozen=True)
class _Plan:
    """What is to be done with a text, which `models` translate, and its sentences, which may have other routes."""

    source: str
    detected: Detected | None
    models: list[Model]
    prepared: PreparedDocument
    routes: list[list[Model]]


class Service:
    """Translates the texts of any number of requests at once."""

    def __init__(
        self,
        models: ServedModels,
        limits: ServiceLimits | None = None,
        *,
        search: Mapping[str, Any] | None = None,
        load: SharedLoad | None = None,
    ) -> None:
        """Serve models; `search` are the search options that differ from the runs', where a request has no others.

        `load` is that of all workers of the server, by default of this one.
        """
        self.models, self.limits, self.search = models, limits or ServiceLimits(), dict(search or {})
        self._load = load or SharedLoad()
        self._waits: weakref.WeakKeyDictionary[Model, tuple[float, float]] = weakref.WeakKeyDictionary()
        self.pieces_kept = self.pieces_repaired = 0  # protected pieces, since the start
        self.closing = False

    @property
    def accepted(self) -> int:
        """Number of the sentences that were accepted here and aren't finished yet."""
        return self._load.own

    def source_of(self, job: TranslationJob, text: str) -> tuple[str, Detected | None]:
        """Return a text's language and what was detected; raises `ServiceError` (400)."""
        if job.model is not None:
            return self.models.named(job.model).source, None
        if job.source is not None:
            return self.models.source(job.source), None
        sources = self.models.sources
        if not sources:
            raise ServiceError(503, "the server has no model whose languages it knows", retry_after=60)
        if self._keeps(job) and (target := self.models.target(job.target)) == surely(text, [*sources, target]):
            return target, Detected(target, 1.0)
        found = detect(text, sources)
        language = next((one for one in found if one.language in sources), Detected(sources[0], 0.0))
        return language.language, language

    def route_of(self, job: TranslationJob, detected: str = "") -> list[Model]:
        """Return the models that a job needs, from a detected language if it has none; raises `ServiceError` (400)."""
        if job.model is not None:
            return [self.models.named(job.model, job.target)]
        return self.models.route(job.source or detected, job.target)

    async def translate(self, job: TranslationJob) -> list[TranslatedText]:
        """Translate the texts of a request.

        Raises `ServiceError` for a request that is refused or too late, and `HeadwiseError` for a wrong option.
        """
        self.limits.check(job.texts)
        async with deadline(self.limits.seconds):
            plans = await away(job.texts, lambda: self._plans(job, map(job.parsed, job.texts)))
            return await self._translate(job, plans)

    async def translate_document(self, job: TranslationJob, texts: Sequence[ParsedText]) -> list[TranslatedText]:
        """Translate the texts of a file in place of the job's, within the deadline of documents; raises as `translate`.

        Their number and length were checked before.
        """
        async with deadline(self.limits.document_seconds):
            plans = await asyncio.to_thread(self._plans, job, texts)
            return await self._translate(job, plans)

    async def stream(self, job: TranslationJob) -> AsyncGenerator[Event, None]:
        """Translate one text; yield `sentence` with its number, source and translation in order, then `end`.

        A document's tags inside a sentence are in its translation, those around it in the whole text alone. `end` has
        the whole text, the models' names and the pivot language. Raises as `translate`, before the first sentence or
        between two.
        """
        self.limits.check(job.texts)
        end = time.monotonic() + self.limits.seconds
        (plan,) = await away(job.texts, lambda: self._plans(job, map(job.parsed, job.texts)))
        prepared = plan.prepared
        sentences, inner = prepared.all_sentences, len(prepared.inner_sentences)
        translated: list[str] = []
        messages: dict[str, str] = {}
        warnings: list[str] = []
        with self._accepting([model for route in plan.routes for model in route], len(sentences)):
            tasks = [
                asyncio.ensure_future(self._render(route, [sentence], job, None))
                for route, sentence in zip(plan.routes, sentences, strict=True)
            ]
            try:
                for number, task in enumerate(tasks, start=-inner):
                    async with deadline(end - time.monotonic()):
                        (rendered,) = await task
                    translated.append(rendered.texts[0])
                    warnings += [*rendered.translation.warnings, *rendered.warnings]
                    if number < 0:  # it is a part of a later one
                        continue
                    if number == 0:
                        messages = prepared.translated_messages(translated[:inner])
                    event = {"number": number, "source": prepared.sentences[number].text}
                    text = put_messages(rendered.texts[0], messages)
                    yield "sentence", {**event, "text": text, "warnings": warnings}
                    warnings = []
                pivot = plan.models[0].target if len(plan.models) > 1 else None
                whole = {"text": prepared.join(translated), "source": plan.source}
                yield "end", {**whole, "models": [model.name for model in plan.models], "pivot": pivot}
            finally:
                for task in tasks:
                    task.cancel()

    async def score(
        self, model: Model, sources: Sequence[str], targets: Sequence[str], alpha: float | None
    ) -> list[Output]:
        """Return the log-probabilities of given translations, one request at a time.

        Raises as `Translator.score`, and `ServiceError` where the server is busy or the deadline passes.
        """
        with self._accepting([model], len(sources)):
            translator = model.translator
            encoded = await away(sources, lambda: translator.encode(sources, translator.options, split="long"))
            for number, parts in enumerate(encoded.parts, start=1):
                if parts > 1:  # `Translator.score` would read its beginning only
                    raise ServiceError(
                        400,
                        f"sources: expected texts that the model reads whole, found text {number} too long",
                    )
            async with deadline(self.limits.seconds):
                return await alone(model.reading, lambda: translator.score(sources, targets, alpha=alpha))

    async def close(self) -> None:
        """Finish what was accepted, and end the schedulers."""
        self.closing = True
        for model in self.models.all:
            for scheduler in (model.scheduler, *model.further_schedulers):
                await asyncio.to_thread(partial(scheduler.close, finish=True))

    # ------------------------------------------------------------------------------------------------ one request

    async def _translate(self, job: TranslationJob, plans: Sequence[_Plan]) -> list[TranslatedText]:
        groups: dict[tuple[Model, ...], dict[_Place, Sentence]] = {}  # the sentences that take each route
        for index, plan in enumerate(plans):
            for number, (route, sentence) in enumerate(zip(plan.routes, plan.prepared.all_sentences, strict=True)):
                groups.setdefault(tuple(route), {})[index, number] = sentence
        # The first sentence of a text gets its prefix; those of its ICU messages come before it.
        first = [len(plan.prepared.inner_sentences) for plan in plans]

        async def translated(route: Sequence[Model], group: dict[_Place, Sentence]) -> list[Rendered[Translation]]:
            prefixes = None
            if job.prefixes is not None:
                prefixes = [job.prefixes[index] if number == first[index] else "" for index, number in group]
            return await self._render(route, list(group.values()), job, prefixes)

        models = [model for route in groups for model in route]
        with self._accepting(models, sum(map(len, groups.values()))):
            found = await all_of([translated(route, group) for route, group in groups.items()])
        by_place: dict[_Place, Rendered[Translation]] = {}
        for group, rendered in zip(groups.values(), found, strict=True):
            by_place.update(zip(group, rendered, strict=True))
        return [
            _translated(plan, [by_place[index, number] for number in range(len(plan.routes))])
            for index, plan in enumerate(plans)
        ]

    def _plans(self, job: TranslationJob, texts: Iterable[ParsedText]) -> list[_Plan]:
        """Find each text's language, models and sentences; raises `ServiceError` (400)."""
        plans: list[_Plan] = []
        # A sentence in another script may be one that a served model reads.
        foreign = all(map(is_latin, self.models.sources))
        for text in texts:
            source, detected = self.source_of(job, text.text)
            is_translated = detected is not None and self._keeps(job) and source == self.models.target(job.target)
            models = [] if is_translated else self.route_of(job, source)
            translators = [model.translator for model in models]
            languages = (translators[0].languages[0], translators[-1].languages[1]) if models else (None, None)
            prepared = text.prepare(source, foreign=foreign, numbers=number_writer(*languages))
            routes = [self._route_of_sentence(job, each, source, models) for each in prepared.all_sentences]
            plans.append(_Plan(source, detected, models, prepared, routes))
        return plans

    def _keeps(self, job: TranslationJob) -> bool:
        """Whether sentences that are in the target language stay as they are."""
        return job.prefixes is None and bool((self.search | job.options).get("keep_translated"))

    def _route_of_sentence(
        self, job: TranslationJob, sentence: Sentence, source: str, models: list[Model]
    ) -> list[Model]:
        """Return the models for a sentence: its text's, unless it is surely in another language."""
        detects = job.source is None and job.model is None and job.prefixes is None
        if not detects and not self._keeps(job):
            return models
        target = models[-1].target if models else source
        language = surely(sentence.text, [*self.models.sources, source, target])
        if language == target and self._keeps(job):
            return []
        if not detects or language in ("", source, target) or language not in self.models.sources:
            return models
        return self.route_of(job, language) if target in self.models.targets_of(language) else models

    @contextmanager
    def _accepting(self, models: Sequence[Model], sentences: int) -> Iterator[None]:
        """Count the sentences of a request until they are finished.

        Raises `ServiceError` where the server ends (503), or too much waits here or in all workers (429).
        """
        if self.closing:
            raise ServiceError(503, "the server is shutting down", retry_after=5)
        if max(map(self._seconds_waiting_of_late, models), default=0.0) > self.limits.seconds / 2:
            raise _busy(max(map(_seconds_waiting, models)))
        if not self._load.accept(sentences, self.limits.queue):
            raise _busy(max([self._load.seconds_waiting, *map(_seconds_waiting, models)]))
        try:
            yield
        finally:
            self._load.finish(sentences)

    async def _render(
        self,
        models: Sequence[Model],
        sentences: list[Sentence],
        job: TranslationJob,
        prefixes: list[str] | None,
    ) -> list[Rendered[Translation]]:
        """Translate sentences with their tags and pieces, and count what became of the pieces."""
        if not models:
            return [Rendered([each.source], Translation.kept(each.text)) for each in sentences]

        async def search(texts: list[str], numbers: Sequence[int]) -> list[Searched]:
            some = None if prefixes is None else [prefixes[number] for number in numbers]
            return await self._through(models, texts, job, some)

        rendered = await render(sentences, search)
        self.pieces_repaired += sum(len(one.repaired) for one in rendered)
        self.pieces_kept += sum(one.kept for one in rendered)
        return rendered

    async def _through(
        self, models: Sequence[Model], texts: Sequence[str], job: TranslationJob, prefixes: list[str] | None
    ) -> list[Searched]:
        """Translate sentences by each of the models in turn, and return what each of them found.

        The last one gets the job's options and prefixes.
        """
        chain: list[Searched] = []
        first = texts
        for model in models[:-1]:
            chain.append(await translate(model, texts, Search(self._options(model, {}), job.client)))
            texts = [translation.text for translation in chain[-1].translations]
        options = self._options(models[-1], job.options)
        search = Search(options, job.client, prefixes, job.alignments, job.glossary, first)
        return [*chain, await translate(models[-1], texts, search)]

    def _options(self, model: Model, changes: Mapping[str, Any]) -> SearchOptions:
        """Return the options of a search; which sentences stay as they are was found before it."""
        translator = model.translator
        if "n_best" in changes:  # as many need as wide a beam
            beam = max(translator.options_with(**self.search).beam, changes["n_best"])
            changes = {"beam": beam, **changes}
        return translator.options_with(**{**self.search, **changes, "keep_translated": False})

    def tell_wait(self) -> None:
        """Tell the other workers how long a new sentence would wait here."""
        self._load.estimate(max(map(_seconds_waiting, self.models.all), default=0.0))

    def _seconds_waiting_of_late(self, model: Model) -> float:
        """Return `_seconds_waiting`, up to a moment old, as asking the scheduler takes a part of a short request."""
        now = time.monotonic()
        measured, seconds = self._waits.get(model, (-math.inf, 0.0))
        if now - measured > _MOMENT:
            seconds = _seconds_waiting(model)
            self._waits[model] = (now, seconds)
        return seconds


def _translated(plan: _Plan, rendered: Sequence[Rendered[Translation]]) -> TranslatedText:
    text, *others = plan.prepared.join_ranks([sentence.texts for sentence in rendered])
    return TranslatedText(text, others, plan.source, plan.detected, plan.models, rendered)


def _busy(wait: float) -> ServiceError:
    """Return the refusal of a request that may come again after some seconds."""
    seconds = min(max(1, math.ceil(wait)), 60)
    return ServiceError(429, f"the server is busy; try again in {seconds} seconds", retry_after=seconds)


def _seconds_waiting(model: Model) -> float:
    """Return an estimate of the seconds until what waits for a model is translated."""
    load = model.load
    return load.waiting_tokens / load.tokens_per_second if load.tokens_per_second else 0.0

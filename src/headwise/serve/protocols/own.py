"""Headwise's own protocol: everything that its models can tell about a translation.

    POST /v1/translate         texts, with several translations of each, scores, alignments and prefixes
    POST /v1/translate/stream  one text, sentence by sentence, as server-sent events
    POST /v1/score             the log-probabilities of given translations
    GET  /v1/models            the models

`Authorization: Bearer KEY` or `X-API-Key: KEY` has the key, and an error is `{"error": "one sentence"}`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headwise import bounds
from headwise.documents.rules import TagRules
from headwise.documents.segments import Mode
from headwise.engine.outputs import Output, Translation
from headwise.errors import DataError, HeadwiseError
from headwise.serve.protocols.context import Client, Context
from headwise.serve.protocols.tags import TagFields, within
from headwise.serve.translation.glossaries import MOST_NAME
from headwise.serve.translation.service import Event, TranslatedText, TranslationJob
from headwise.text.reading.glossary import Entry, Glossary
from headwise.web.endpoints import JSON, Endpoints
from headwise.web.errors import ServiceError
from headwise.web.fields import while_connected
from headwise.web.openapi import error_answers

MOST_INLINE = 1_000  # entries of a request's own glossary
Language = Annotated[str, Field(min_length=1, max_length=40, examples=["en"])]
Name = Annotated[str, Field(max_length=200, description="A model's name, in place of the languages.")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: Language | None = Field(None, description="The texts' language; detected if it isn't given.")
    target: Language | None = Field(None, description="The language to translate to.")
    model: Name | None = None

    def target_or_none(self) -> str:
        """Return the target language; raises `ServiceError` (400) without one and without a model."""
        if self.model is None and self.target is None:
            raise ServiceError(400, "target: expected a language code, or a model's name in model, found neither")
        return self.target or ""


class EntryFields(BaseModel):
    """A term and its translations, of which any one will do."""

    model_config = ConfigDict(extra="forbid")

    source: str = Field(examples=["beach"])
    targets: list[str] = Field(examples=[["Strand", "Strände"]])


class GlossaryFields(BaseModel):
    """A glossary of the request's own."""

    model_config = ConfigDict(extra="forbid")

    entries: list[EntryFields] = Field(max_length=MOST_INLINE)
    ignore_case: bool = Field(False, description="Find the terms in any case.")

    def read(self) -> Glossary:
        """Return the glossary; raises `ServiceError` (400)."""
        try:
            entries = [Entry(each.source.strip(), tuple(map(str.strip, each.targets))) for each in self.entries]
            return Glossary(entries, ignore_case=self.ignore_case)
        except DataError as error:
            raise ServiceError(400, str(error)) from None


class _Search(_Request):
    beam: Annotated[int, Field(ge=1, le=bounds.SERVED_BEAM)] | None = Field(None, description="By default the run's.")
    alpha: Annotated[float, Field(ge=0, le=5)] | None = Field(None, description="By default the run's.")
    guard: bool | None = Field(
        None,
        description="Search again for outputs that repeat themselves or run on; by default the server's.",
    )
    recase: bool | None = Field(
        None,
        description="Translate capitals, titles and lower case as ordinary text; by default the server's.",
    )
    already_translated: Literal["keep", "translate"] | None = Field(
        None, description="What becomes of sentences in the target language; by default the server's."
    )
    split: Mode = Field("all", description="Where sentences end: at line ends and punctuation, or not.")

    glossary: GlossaryFields | Annotated[str, Field(max_length=MOST_NAME)] | None = Field(
        None, description="Terms and their translations, or the id or name of a kept glossary."
    )

    def options(self) -> dict[str, Any]:
        """Return the search options that differ from the run's."""
        names = ("beam", "alpha", "guard", "recase")
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.already_translated is not None:
            found["keep_translated"] = self.already_translated == "keep"
        return found


class _Formatted(_Search, TagFields):
    format: Literal["text", "html", "xml"] = Field("text", description="What the texts are.")
    protect: bool = Field(True, description="Keep URLs, placeholders and the like as they are.")

    def tags(self) -> TagRules | None:
        """Return how tags are handled."""
        return None if self.format == "text" else self.rules(self.format)

    def job(self, context: Context, client: Client, texts: list[str], **more: Any) -> TranslationJob:
        """Return the job of a client, with `more` of its attributes; raises `ServiceError` (400, 404)."""
        job = TranslationJob(
            texts,
            self.target_or_none(),
            self.source,
            self.model,
            self.split if self.format == "text" else within(self.split),
            self.options(),
            client=client.name,
            tags=self.tags(),
            protect=self.protect,
            **more,
        )
        if isinstance(self.glossary, GlossaryFields):
            return replace(job, glossary=self.glossary.read())
        return context.with_glossary(client, job, self.glossary)


class TranslateRequest(_Formatted):
    """Translate texts."""

    texts: list[str] = Field(examples=[["A man rides a horse."]])
    n_best: Annotated[int, Field(ge=1, le=bounds.SERVED_BEAM)] = 1
    scores: bool = Field(False, description="Add the sentences' outputs with their log-probabilities.")
    alignments: bool = Field(False, description="Add the sentences' outputs with their word alignments.")
    prefixes: list[str] | None = Field(None, description="For each text how its translation begins.")

    def options(self) -> dict[str, Any]:
        """Return the search options that differ from the run's."""
        return super().options() | ({"n_best": self.n_best} if self.n_best > 1 else {})

    def tags(self) -> TagRules | None:
        """Return how tags are handled; raises `ServiceError` (400) for a document with a prefix."""
        if self.format != "text" and self.prefixes is not None:
            raise ServiceError(400, f"prefixes: expected none with format {self.format}, found some")
        return super().tags()


class StreamRequest(_Formatted):
    """Translate one text, sentence by sentence."""

    text: str = Field(examples=["A man rides a horse. Two dogs are playing."])


class ScoreRequest(_Request):
    """Score given translations."""

    sources: list[str] = Field(examples=[["A man rides a horse."]])
    targets: list[str] = Field(examples=[["Ein Mann reitet ein Pferd."]])
    alpha: Annotated[float, Field(ge=0, le=5)] | None = None


class OutputAnswer(BaseModel):
    """One output of a sentence; log-probabilities are natural logarithms, links (source, target) words from 0."""

    text: str
    log_probability: float
    score: float
    pieces: list[str]
    token_log_probabilities: list[float]
    alignment: list[tuple[int, int]] | None = None


class SentenceAnswer(BaseModel):
    """A sentence and its outputs, best first."""

    source: str
    outputs: list[OutputAnswer]


class TranslationAnswer(BaseModel):
    """The translation of a text; `pivot` is the language between two models, `confidence` that of the detection."""

    text: str
    alternatives: list[str]
    source: str
    confidence: float | None
    models: list[str]
    pivot: str | None
    warnings: list[str]
    sentences: list[SentenceAnswer] | None = None


class TranslateAnswer(BaseModel):
    """The translations, in the texts' order."""

    translations: list[TranslationAnswer]


class ScoreAnswer(BaseModel):
    """The scores, in the texts' order."""

    scores: list[OutputAnswer]


class ModelAnswer(BaseModel):
    """A model."""

    name: str
    source: str
    target: str
    targets: list[str]
    engine: str
    beam: int


class ModelsAnswer(BaseModel):
    """The models."""

    models: list[ModelAnswer]


def routes(context: Context) -> Endpoints:
    """Return Headwise's own endpoints."""
    endpoints = context.endpoints("Headwise", error_answers("error", 404), wrong=422)
    _add_translation(endpoints, context)
    _add_scores(endpoints, context)
    _add_models(endpoints, context)
    return endpoints


def _add_translation(endpoints: Endpoints, context: Context) -> None:
    @endpoints("POST", "/v1/translate", "Translate texts", TranslateAnswer, kinds=JSON)
    async def translate(request: Request, fields: TranslateRequest) -> dict[str, Any]:
        client = _client(context, request)
        job = fields.job(context, client, fields.texts, prefixes=fields.prefixes, alignments=fields.alignments)
        if fields.prefixes is not None:
            if len(fields.prefixes) != len(fields.texts):
                raise ServiceError(
                    400,
                    f"prefixes: expected one for each of the {len(fields.texts)} texts, found {len(fields.prefixes)}",
                )
            context.limits.check(fields.prefixes)
        found = await context.translate(request, client, job)
        details = fields.scores or fields.alignments
        return {"translations": [_translation(one, details) for one in found]}

    @endpoints(
        "POST",
        "/v1/translate/stream",
        "Translate a text, sentence by sentence",
        content=["text/event-stream"],
        kinds=JSON,
    )
    async def stream(request: Request, fields: StreamRequest) -> Response:
        client = _client(context, request)
        job = fields.job(context, client, [fields.text])
        context.check_languages(job)
        events = context.service.stream(job)
        with context.charged(request, client, context.limits.check([fields.text])):
            first = await while_connected(request, anext(events))  # so that a refusal has its status
        return StreamingResponse(_events(first, events), media_type="text/event-stream")


def _add_scores(endpoints: Endpoints, context: Context) -> None:
    service = context.service

    @endpoints("POST", "/v1/score", "Score given translations", ScoreAnswer, kinds=JSON)
    async def score(request: Request, fields: ScoreRequest) -> dict[str, Any]:
        client = _client(context, request)
        if len(fields.sources) != len(fields.targets):
            raise ServiceError(
                400,
                f"targets: expected one for each of the {len(fields.sources)} sources, found {len(fields.targets)}",
            )
        if fields.model is None and fields.source is None:
            raise ServiceError(400, "source: expected a language code, or a model's name in model, found neither")
        job = TranslationJob(fields.sources, fields.target_or_none(), fields.source, fields.model)
        route = service.route_of(job)
        if len(route) != 1:
            raise ServiceError(
                400, f"target: expected a language of one model, found one that {len(route)} translate to"
            )
        context.limits.check(fields.targets)
        with context.charged(request, client, context.limits.check(fields.sources)):
            outputs = await while_connected(
                request, service.score(route[0], fields.sources, fields.targets, fields.alpha)
            )
        return {"scores": [_output(output) for output in outputs]}


def _add_models(endpoints: Endpoints, context: Context) -> None:
    service = context.service

    @endpoints("GET", "/v1/models", "List the models", ModelsAnswer)
    async def models(request: Request) -> dict[str, Any]:
        _client(context, request)
        entries = [
            {
                "name": model.name,
                "source": model.source,
                "target": model.target,
                "targets": service.models.all_targets(model),
                "engine": model.translator.description,
                "beam": model.translator.options.beam,
            }
            for model in service.models.all
        ]
        return {"models": entries}


def _client(context: Context, request: Request) -> Client:
    """Return the client of a request; raises `ServiceError` (403, 429)."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    bearer = key.strip() if scheme.lower() == "bearer" else None
    return context.client(request, bearer or request.headers.get("x-api-key"))


async def _events(first: Event, rest: AsyncGenerator[Event, None]) -> AsyncIterator[str]:
    """Yield server-sent events; an error after the first of them is an event, too."""
    async with aclosing(rest):
        yield _event(*first)
        try:
            async for kind, data in rest:
                yield _event(kind, data)
        except (ServiceError, HeadwiseError) as error:
            yield _event("error", {"error": str(error)})


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _translation(found: TranslatedText, details: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "text": found.text,
        "alternatives": found.alternatives,
        "source": found.source,
        "confidence": None if found.detected is None else found.detected.confidence,
        "models": [model.name for model in found.models],
        "pivot": found.pivot,
        "warnings": found.warnings,
    }
    if details:
        answer["sentences"] = [_sentence(sentence.translation) for sentence in found.sentences]
    return answer


def _sentence(sentence: Translation) -> dict[str, Any]:
    return {"source": sentence.source, "outputs": [_output(output) for output in sentence.outputs]}


def _output(output: Output) -> dict[str, Any]:
    found = {name: getattr(output, name) for name in OutputAnswer.model_fields}
    return {name: value for name, value in found.items() if value is not None}

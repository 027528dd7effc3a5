"""DeepL's endpoints for glossaries, versions 2 and 3: https://developers.deepl.com/api-reference/multilingual-glossaries.

    POST, GET          /v2/glossaries, /v3/glossaries     create one, list all
    GET, DELETE        /v2/glossaries/ID                  PATCH /v3/glossaries/ID changes its name and merges entries
    GET                /v2/glossaries/ID/entries          the entries as text; in version 3 in JSON, by languages
    PUT, DELETE        /v3/glossaries/ID/dictionaries     replace or remove the dictionary of two languages
    GET                /v2/glossary-language-pairs        the pairs of languages

Fields are in JSON or, as DeepL's client for Node.js sends them, in a form, with `dictionaries[0].entries` and so on.
A glossary of version 2 is one with a single dictionary. Further tab-separated columns of an entry are other forms of
its translation, which DeepL doesn't have.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headwise.serve.protocols.context import Context
from headwise.serve.protocols.deepl import QUOTA_EXCEEDED, DeepLFields, client_of
from headwise.serve.translation.glossaries import (
    MOST_DICTIONARIES,
    MOST_NAME,
    Dictionary,
    KeptGlossary,
    base_language,
    make_dictionary,
)
from headwise.web.endpoints import FORMS, Endpoints
from headwise.web.errors import ServiceError
from headwise.web.openapi import error_answers

Language = Annotated[str, Field(min_length=1, max_length=40, examples=["de"])]
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
_TSV = "text/tab-separated-values"


class DictionaryFields(BaseModel):
    """The entries of a pair of languages."""

    model_config = ConfigDict(extra="ignore")

    source_lang: Language
    target_lang: Language
    entries: str = Field(examples=["bank\tBank"])
    entries_format: Literal["tsv", "csv"] = "tsv"

    def read(self) -> Dictionary:
        """Return the dictionary; raises `ServiceError` (400)."""
        return make_dictionary(self.source_lang, self.target_lang, self.entries, self.entries_format)


class CreateFields(DeepLFields, DictionaryFields):
    """A glossary of one dictionary."""

    name: Name


class CreateAllFields(DeepLFields):
    """A glossary of several dictionaries."""

    name: Name
    dictionaries: list[DictionaryFields] = Field(min_length=1, max_length=MOST_DICTIONARIES)


class ChangeFields(DeepLFields):
    """A new name, and entries that are added or replace those of the same terms."""

    name: Name | None = None
    dictionaries: list[DictionaryFields] = Field(default=[], max_length=MOST_DICTIONARIES)


class ReplaceFields(DeepLFields, DictionaryFields):
    """A dictionary that replaces that of the same languages."""


class PairFields(DeepLFields):
    """A pair of languages."""

    source_lang: Language
    target_lang: Language


class GlossaryAnswer(BaseModel):
    """A glossary of version 2."""

    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossariesAnswer(BaseModel):
    """The glossaries."""

    glossaries: list[GlossaryAnswer]


class DictionaryAnswer(BaseModel):
    """A dictionary without its entries."""

    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualAnswer(BaseModel):
    """A glossary of version 3."""

    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryAnswer]


class MultilingualsAnswer(BaseModel):
    """The glossaries."""

    glossaries: list[MultilingualAnswer]


class EntriesAnswer(BaseModel):
    """A dictionary with its entries."""

    source_lang: str
    target_lang: str
    entries: str
    entries_format: Literal["tsv"]


class DictionariesAnswer(BaseModel):
    """Dictionaries with their entries."""

    dictionaries: list[EntriesAnswer]


class PairAnswer(BaseModel):
    """A pair of languages."""

    source_lang: str
    target_lang: str


class PairsAnswer(BaseModel):
    """The pairs of languages."""

    supported_languages: list[PairAnswer]


def routes(context: Context) -> Endpoints:
    """Return the endpoints of both versions."""
    endpoints = context.endpoints("DeepL", error_answers("message", 404, QUOTA_EXCEEDED))
    _add_version_2(endpoints, context)
    _add_version_3(endpoints, context)
    return endpoints


def _add_version_2(endpoints: Endpoints, context: Context) -> None:
    @endpoints("POST", "/v2/glossaries", "Create a glossary", GlossaryAnswer, status=201, kinds=FORMS)
    async def create(request: Request, fields: CreateFields) -> dict[str, Any]:
        owner = _owner(context, request, fields)
        dictionary = await run_in_threadpool(fields.read)
        return _single(context.glossaries.create(owner, fields.name, [dictionary]))

    @endpoints("GET", "/v2/glossaries", "List the glossaries", GlossariesAnswer)
    async def every(request: Request) -> dict[str, Any]:
        kept = context.glossaries.all(_owner(context, request))
        return {"glossaries": [_single(one) for one in kept if one.dictionaries]}

    @endpoints("GET", "/v2/glossaries/{identifier}", "Describe a glossary", GlossaryAnswer)
    async def describe(request: Request, identifier: str) -> dict[str, Any]:
        kept = context.glossaries.find(_owner(context, request), identifier)
        if not kept.dictionaries:
            raise ServiceError(404, "glossary: expected one with entries, found one without any")
        return _single(kept)

    @endpoints("GET", "/v2/glossaries/{identifier}/entries", "Read the entries", content=[_TSV])
    async def entries(request: Request, identifier: str) -> Response:
        found = context.glossaries.entries(_owner(context, request), identifier)
        return Response(found[0].entries, media_type=_TSV)

    @endpoints("DELETE", "/v2/glossaries/{identifier}", "Remove a glossary", status=204)
    async def remove(request: Request, identifier: str) -> None:
        context.glossaries.remove(_owner(context, request), identifier)

    @endpoints("GET", "/v2/glossary-language-pairs", "List pairs of languages", PairsAnswer)
    async def pairs(request: Request) -> dict[str, Any]:
        _owner(context, request)
        models = context.service.models
        found = sorted(
            {
                (base_language(source), base_language(target))
                for source in models.sources
                for target in models.targets_of(source)
            }
        )
        return {"supported_languages": [{"source_lang": one, "target_lang": two} for one, two in found]}


def _add_version_3(endpoints: Endpoints, context: Context) -> None:
    @endpoints("POST", "/v3/glossaries", "Create a glossary", MultilingualAnswer, status=201, kinds=FORMS)
    async def create(request: Request, fields: CreateAllFields) -> dict[str, Any]:
        owner = _owner(context, request, fields)
        read = await run_in_threadpool(lambda: [one.read() for one in fields.dictionaries])
        return _several(context.glossaries.create(owner, fields.name, read))

    @endpoints("GET", "/v3/glossaries", "List the glossaries", MultilingualsAnswer)
    async def every(request: Request) -> dict[str, Any]:
        kept = context.glossaries.all(_owner(context, request))
        return {"glossaries": list(map(_several, kept))}

    @endpoints("GET", "/v3/glossaries/{identifier}", "Describe a glossary", MultilingualAnswer)
    async def describe(request: Request, identifier: str) -> dict[str, Any]:
        return _several(context.glossaries.find(_owner(context, request), identifier))

    @endpoints(
        "PATCH",
        "/v3/glossaries/{identifier}",
        "Change a glossary's name, and merge entries into it",
        MultilingualAnswer,
        kinds=FORMS,
    )
    async def change(request: Request, identifier: str, fields: ChangeFields) -> dict[str, Any]:
        owner = _owner(context, request, fields)
        read = await run_in_threadpool(lambda: [one.read() for one in fields.dictionaries])
        kept = context.glossaries.update(owner, identifier, fields.name, read, merge=True)
        return _several(kept)

    @endpoints("DELETE", "/v3/glossaries/{identifier}", "Remove a glossary", status=204)
    async def remove(request: Request, identifier: str) -> None:
        context.glossaries.remove(_owner(context, request), identifier)

    _add_dictionaries(endpoints, context)


def _add_dictionaries(endpoints: Endpoints, context: Context) -> None:
    @endpoints("GET", "/v3/glossaries/{identifier}/entries", "Read the entries of two languages", DictionariesAnswer)
    async def entries(request: Request, identifier: str, fields: PairFields) -> dict[str, Any]:
        languages = map(base_language, (fields.source_lang, fields.target_lang))
        found = context.glossaries.entries(_owner(context, request, fields), identifier, *languages)
        return {
            "dictionaries": [
                {
                    "source_lang": one.source,
                    "target_lang": one.target,
                    "entries": one.entries,
                    "entries_format": "tsv",
                }
                for one in found
            ]
        }

    @endpoints(
        "PUT",
        "/v3/glossaries/{identifier}/dictionaries",
        "Replace the entries of two languages",
        DictionaryAnswer,
        kinds=FORMS,
    )
    async def replace(request: Request, identifier: str, fields: ReplaceFields) -> dict[str, Any]:
        owner = _owner(context, request, fields)
        read = await run_in_threadpool(fields.read)
        context.glossaries.update(owner, identifier, None, [read], merge=False)
        return _dictionary(read)

    @endpoints(
        "DELETE",
        "/v3/glossaries/{identifier}/dictionaries",
        "Remove the entries of two languages",
        status=204,
    )
    async def remove_dictionary(request: Request, identifier: str, fields: PairFields) -> None:
        languages = map(base_language, (fields.source_lang, fields.target_lang))
        context.glossaries.remove_dictionary(_owner(context, request, fields), identifier, *languages)


def _owner(context: Context, request: Request, fields: DeepLFields | None = None) -> str:
    """Return the owner of a request's glossaries; raises `ServiceError` (403, 429)."""
    return client_of(context, request, fields).owner


def _single(kept: KeptGlossary) -> dict[str, Any]:
    first = kept.dictionaries[0]
    return {
        "glossary_id": kept.identifier,
        "name": kept.name,
        "ready": True,
        "source_lang": first.source,
        "target_lang": first.target,
        "creation_time": kept.created,
        "entry_count": first.count,
    }


def _several(kept: KeptGlossary) -> dict[str, Any]:
    return {
        "glossary_id": kept.identifier,
        "name": kept.name,
        "creation_time": kept.created,
        "dictionaries": list(map(_dictionary, kept.dictionaries)),
    }


def _dictionary(one: Dictionary) -> dict[str, Any]:
    return {"source_lang": one.source, "target_lang": one.target, "entry_count": one.count}

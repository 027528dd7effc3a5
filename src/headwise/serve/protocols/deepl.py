"""DeepL's protocol, versions 2 of its endpoints: https://developers.deepl.com/docs.

    POST /v2/translate             texts
    POST /v2/document              upload a file; POST /v2/document/ID its status; POST /v2/document/ID/result download
    GET  /v2/languages             the languages
    GET  /v2/usage                 the characters that a key has used this month

Fields are in JSON or in a form, `Authorization: DeepL-Auth-Key KEY` has the key, and an error is
`{"message": "one sentence"}`. `context` and `model_type` are accepted and have no effect.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from headwise.config.languages import language_name
from headwise.documents.formats import FORMATS
from headwise.documents.rules import TagRules
from headwise.documents.segments import Mode
from headwise.serve.protocols.context import Client, Context
from headwise.serve.protocols.libretranslate import file_response
from headwise.serve.protocols.tags import TagFields, within
from headwise.serve.translation.service import TranslationJob
from headwise.web.endpoints import FILE, FORMS, Endpoints
from headwise.web.errors import ServiceError
from headwise.web.fields import uploaded
from headwise.web.openapi import error_answers

QUOTA_EXCEEDED = 456  # DeepL's status
MOST_TEXTS = 50
UNLIMITED = 10**12  # characters a month, as DeepL reports them for contracts without a limit
_SCHEME = "deepl-auth-key"  # of Authorization, in lower case
_MODES: dict[str, Mode] = {"0": "none", "1": "all", "nonewlines": "punctuation"}
# Fields that change a translation in ways that no run has learned.
_REFUSED = {
    "glossary_ids": "this server uses one glossary at a time, that of glossary_id",
    "style_id": "this server has no style rules",
    "custom_instructions": "this server's models follow no instructions",
    "translation_memory_id": "this server has no translation memories",
}
# What DeepL calls languages that it splits by region or script; its client refuses EN and PT as targets.
_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-PT": "Portuguese (European)", "PT-BR": "Portuguese (Brazilian)"},
    "pb": {"PT-BR": "Portuguese (Brazilian)"},
    "zt": {"ZH-HANT": "Chinese (traditional)"},
    "no": {"NB": "Norwegian (bokmål)"},
}
Language = Annotated[str, Field(min_length=1, max_length=40, examples=["DE"])]


class DeepLFields(BaseModel):
    """The fields of every request."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    auth_key: Annotated[str, Field(max_length=200)] | None = None


class _Refusing(DeepLFields):
    """Fields that are refused where they are set, and those about the formality."""

    source_lang: Language | None = None
    target_lang: Language
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    glossary_id: str | None = None
    glossary_ids: list[str] | str | None = None
    style_id: str | None = None
    custom_instructions: list[str] | str | None = None
    translation_memory_id: str | None = None

    def check(self) -> None:
        """Raise `ServiceError` (400) for a field that asks for what the server can't do."""
        for name, reason in _REFUSED.items():
            if getattr(self, name):
                raise ServiceError(400, f"{name}: expected none, because {reason}")
        if self.formality in ("more", "less"):  # DeepL refuses these, too, where a language has no formality
            raise ServiceError(400, f"formality: expected default, prefer_more or prefer_less, found {self.formality}")


class DeepLTranslateFields(_Refusing, TagFields):
    """Texts to translate."""

    text: list[str] = Field(min_length=1, max_length=MOST_TEXTS)
    context: str | None = Field(None, description="Has no effect.")
    split_sentences: Literal["0", "1", "nonewlines"] = "1"
    preserve_formatting: bool = Field(False, description="White space is always preserved.")
    show_billed_characters: bool = False
    tag_handling: Literal["html", "xml"] | None = Field(None, description="What the texts are; else plain text.")

    def tags(self) -> TagRules | None:
        """Return how tags are handled."""
        return None if self.tag_handling is None else self.rules(self.tag_handling)


class DocumentFields(_Refusing):
    """The fields beside a file."""

    filename: Annotated[str, Field(max_length=300)] | None = None
    output_format: Annotated[str, Field(max_length=10)] | None = None


class KeyFields(DeepLFields):
    """The key of a document."""

    document_key: Annotated[str, Field(max_length=200)]


class LanguagesFields(DeepLFields):
    """Which languages to list."""

    type: Literal["source", "target"] = "source"


class TextAnswer(BaseModel):
    """The translation of a text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None


class DeepLTranslateAnswer(BaseModel):
    """The translations."""

    translations: list[TextAnswer]


class DeepLLanguageAnswer(BaseModel):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = None


class UsageAnswer(BaseModel):
    """Characters used and allowed this month."""

    character_count: int
    character_limit: int


class DocumentAnswer(BaseModel):
    """What identifies a document."""

    document_id: str
    document_key: str


class StatusAnswer(BaseModel):
    """How far the translation of a document is."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


def routes(context: Context) -> Endpoints:
    """Return DeepL's endpoints."""
    endpoints = context.endpoints("DeepL", error_answers("message", 404, QUOTA_EXCEEDED))
    _add_texts(endpoints, context)
    _add_account(endpoints, context)
    _add_documents(endpoints, context)
    return endpoints


def _add_texts(endpoints: Endpoints, context: Context) -> None:
    @endpoints("POST", "/v2/translate", "Translate texts", DeepLTranslateAnswer, kinds=FORMS)
    async def translate(request: Request, fields: DeepLTranslateFields) -> dict[str, Any]:
        client = client_of(context, request, fields)
        fields.check()
        mode, tags = _MODES[fields.split_sentences], fields.tags()
        mode = mode if tags is None else within(mode)
        job = TranslationJob(
            fields.text, fields.target_lang, fields.source_lang, mode=mode, client=client.name, tags=tags
        )
        job = context.with_glossary(client, job, fields.glossary_id)
        found = await context.translate(request, client, job, exceeded=QUOTA_EXCEEDED)
        translations: list[dict[str, Any]] = []
        for text, one in zip(fields.text, found, strict=True):
            entry: dict[str, Any] = {"detected_source_language": _code(one.source), "text": one.text}
            if fields.show_billed_characters:
                entry["billed_characters"] = len(text)
            translations.append(entry)
        return {"translations": translations}


def _add_account(endpoints: Endpoints, context: Context) -> None:
    models = context.service.models

    @endpoints("GET", "/v2/languages", "List the languages", list[DeepLLanguageAnswer])
    @endpoints("POST", "/v2/languages", "List the languages", list[DeepLLanguageAnswer])
    async def languages(request: Request, fields: LanguagesFields) -> list[dict[str, Any]]:
        client_of(context, request, fields)
        if fields.type == "source":
            return [{"language": _code(c), "name": language_name(c)} for c in models.sources]
        named = [_VARIANTS.get(code) or {_code(code): language_name(code)} for code in models.targets]
        return [
            {"language": code, "name": name, "supports_formality": False}
            for names in named
            for code, name in names.items()
        ]

    @endpoints("GET", "/v2/usage", "Show the quota", UsageAnswer)
    @endpoints("POST", "/v2/usage", "Show the quota", UsageAnswer)
    async def usage(request: Request, fields: DeepLFields) -> dict[str, Any]:
        used, limit = context.usage(client_of(context, request, fields))
        return {"character_count": used, "character_limit": UNLIMITED if limit is None else limit}


def _add_documents(endpoints: Endpoints, context: Context) -> None:
    @endpoints("POST", "/v2/document", "Upload a document", DocumentAnswer, kinds=FILE)
    async def upload(request: Request, fields: DocumentFields) -> dict[str, Any]:
        client = client_of(context, request, fields)
        fields.check()
        name, upload = await uploaded(request)
        name = fields.filename or name
        if fields.output_format and not name.lower().endswith(f".{fields.output_format.lower().lstrip('.')}"):
            raise ServiceError(400, "output_format: expected the format of the file, found another")
        file = await context.documents.read(name, upload.file.read, fields.target_lang, fields.source_lang)
        job = TranslationJob([], fields.target_lang, fields.source_lang, client=client.name)
        job = context.with_glossary(client, job, fields.glossary_id)
        context.check_languages(job)
        with context.charged(request, client, file.characters, exceeded=QUOTA_EXCEEDED):
            failed = partial(context.give_back, client, file.characters)
            document = context.documents.start(name, file, job, upload.size or 0, failed)
        return {"document_id": document.identifier, "document_key": document.key}

    @endpoints("POST", "/v2/document/{identifier}", "Ask for a document's status", StatusAnswer, kinds=FORMS)
    async def status(request: Request, identifier: str, fields: KeyFields) -> dict[str, Any]:
        client_of(context, request, fields)
        document = context.documents.find(identifier, fields.document_key)
        answer: dict[str, Any] = {"document_id": identifier, "status": document.status}
        if document.status == "done":
            answer["billed_characters"] = document.characters
        if document.error is not None:
            answer["error_message"] = document.error
        return answer

    @endpoints(
        "POST",
        "/v2/document/{identifier}/result",
        "Download a translated document, once",
        kinds=FORMS,
        content=[one.media_type for one in FORMATS.values()],
    )
    async def result(request: Request, identifier: str, fields: KeyFields) -> Response:
        client_of(context, request, fields)
        document = context.documents.find(identifier, fields.document_key)
        if document.error is not None:
            raise ServiceError(document.error_status, document.error)
        if document.content is None:
            raise ServiceError(503, "document: expected a translated document, found one that isn't yet", 1)
        context.documents.remove(identifier)
        return file_response(document.name, document.content)


def client_of(context: Context, request: Request, fields: DeepLFields | None) -> Client:
    """Return the client of a request, whose key may be a field; raises `ServiceError` (403, 429)."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == _SCHEME:
        return context.client(request, key.strip())
    return context.client(request, None if fields is None else fields.auth_key)


def _code(code: str) -> str:
    """Return what DeepL calls a source language: the code without region or script, in capitals."""
    base = {"pb": "pt", "zt": "zh", "no": "nb"}.get(code, code)
    return base.partition("-")[0].upper()

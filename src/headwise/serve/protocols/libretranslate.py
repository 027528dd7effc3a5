"""LibreTranslate's protocol, as its clients speak it: https://docs.libretranslate.com, version 1.7.

    POST /translate          texts
    POST /translate_file     a file; GET /download_file/… returns its translation
    POST /detect             the language of a text
    POST /suggest            a better translation, which is refused: nothing is learned from it
    GET  /languages          the languages
    GET  /frontend/settings  limits
    GET  /health             whether the server is alive

Fields are in JSON or in a form; an error is `{"error": "one sentence"}`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from headwise.config.languages import language_name
from headwise.documents.formats import FORMATS, format_of
from headwise.documents.rules import TagRules
from headwise.serve.protocols.context import Context
from headwise.serve.translation.service import TranslatedText, TranslationJob
from headwise.text.reading.detection import Detected, detect
from headwise.web.endpoints import FILE, FORMS, Endpoints
from headwise.web.errors import ServiceError
from headwise.web.fields import uploaded, while_connected
from headwise.web.openapi import error_answers

Language = Annotated[str, Field(min_length=1, max_length=40, examples=["en"])]
ApiKey = Annotated[str, Field(max_length=200)]


class LibreTranslateFields(BaseModel):
    """Texts to translate."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str] = Field(examples=["A man rides a horse."])
    source: Language = Field(description="A language code, or auto to detect it.")
    target: Language = Field(examples=["de"])
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0)] = 0
    api_key: ApiKey | None = None


class DetectFields(BaseModel):
    """A text whose language is unknown."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field(min_length=1, examples=["Ein Mann reitet."])
    api_key: ApiKey | None = None


class FileFields(BaseModel):
    """The fields beside a file."""

    model_config = ConfigDict(extra="ignore")

    source: Language
    target: Language
    api_key: ApiKey | None = None


class SuggestFields(BaseModel):
    """A suggested translation."""

    model_config = ConfigDict(extra="ignore")

    q: str
    s: str
    source: Language
    target: Language
    api_key: ApiKey | None = None


class Detection(BaseModel):
    """A language and a confidence from 0 to 100."""

    confidence: float
    language: str


class LibreTranslateAnswer(BaseModel):
    """The translations; lists where the texts were a list."""

    translatedText: str | list[str]
    detectedLanguage: Detection | list[Detection] | None = None
    alternatives: list[str] | list[list[str]] | None = None
    pivotLanguage: str | list[str | None] | None = None


class LibreLanguageAnswer(BaseModel):
    """A language and what it is translated to."""

    code: str
    name: str
    targets: list[str]


class FileAnswer(BaseModel):
    """The address of a translated file."""

    translatedFileUrl: str


class HealthAnswer(BaseModel):
    """`ok`."""

    status: str


def routes(context: Context) -> Endpoints:
    """Return LibreTranslate's endpoints."""
    endpoints = context.endpoints("LibreTranslate", error_answers("error", 404))
    _add_texts(endpoints, context)
    _add_server(endpoints, context)
    _add_files(endpoints, context)
    return endpoints


def _add_texts(endpoints: Endpoints, context: Context) -> None:
    models = context.service.models

    @endpoints("POST", "/translate", "Translate texts", LibreTranslateAnswer, kinds=FORMS)
    async def translate(request: Request, fields: LibreTranslateFields) -> dict[str, Any]:
        client = context.client(request, fields.api_key)
        texts = [fields.q] if isinstance(fields.q, str) else fields.q
        if not fields.q:
            raise ServiceError(400, "q: expected a text or a list of texts, found none")
        if fields.alternatives > context.limits.alternatives:
            raise ServiceError(
                400,
                f"alternatives: expected at most {context.limits.alternatives}, found {fields.alternatives}",
            )
        job = TranslationJob(
            texts,
            fields.target,
            None if fields.source == "auto" else fields.source,
            mode="punctuation" if fields.format == "html" else "all",
            options={"n_best": fields.alternatives + 1} if fields.alternatives else {},
            client=client.name,
            tags=TagRules() if fields.format == "html" else None,
        )
        found = await context.translate(request, client, job)
        answer = _answer(found, fields)
        return {key: value if isinstance(fields.q, list) else value[0] for key, value in answer.items()}

    @endpoints(
        "POST",
        "/detect",
        "Detect a text's language among those that are served",
        list[Detection],
        kinds=FORMS,
    )
    async def detection(request: Request, fields: DetectFields) -> list[dict[str, Any]]:
        client = context.client(request, fields.api_key)
        with context.charged(request, client, context.limits.check([fields.q])):
            found = detect(fields.q, {*models.sources, *models.targets})
            # Its clients take the first one, and LibreTranslate's answer is never empty.
            return list(map(_detection, found or [Detected(next(iter(models.sources), "en"), 0.0)]))

    @endpoints("POST", "/suggest", "Suggest a translation (refused)", kinds=FORMS)
    async def suggest(request: Request, fields: SuggestFields) -> None:
        context.client(request, fields.api_key)
        raise ServiceError(403, "suggestions are disabled on this server")


def _add_server(endpoints: Endpoints, context: Context) -> None:
    models = context.service.models

    @endpoints("GET", "/languages", "List the languages", list[LibreLanguageAnswer])
    async def languages(request: Request) -> list[dict[str, Any]]:
        codes = sorted({*models.sources, *models.targets})
        return [{"code": code, "name": language_name(code), "targets": models.targets_of(code)} for code in codes]

    @endpoints("GET", "/frontend/settings", "List the limits", dict[str, Any])
    async def settings(request: Request) -> dict[str, Any]:
        source = models.sources[0] if models.sources else "en"
        target = next(iter(models.targets_of(source)), source)
        return {
            "charLimit": context.limits.characters,
            "frontendTimeout": 500,
            "apiKeys": context.keys is not None,
            "keyRequired": context.keys is not None,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FORMATS),
            "language": {
                "source": {"code": source, "name": language_name(source)},
                "target": {"code": target, "name": language_name(target)},
            },
        }

    @endpoints("GET", "/health", "Say that the server is alive", HealthAnswer)
    async def health(request: Request) -> dict[str, Any]:
        return {"status": "ok"}


def _add_files(endpoints: Endpoints, context: Context) -> None:
    @endpoints("POST", "/translate_file", "Translate a file", FileAnswer, kinds=FILE)
    async def translate_file(request: Request, fields: FileFields) -> dict[str, Any]:
        client = context.client(request, fields.api_key)
        name, upload = await uploaded(request)
        source = None if fields.source == "auto" else fields.source
        file = await context.documents.read(name, upload.file.read, fields.target, source)
        job = TranslationJob([], fields.target, source, client=client.name)
        context.check_languages(job)
        with context.charged(request, client, file.characters):
            document = context.documents.start(name, file, job, upload.size or 0)
            try:
                document = await while_connected(request, context.documents.finished(document))
                if document.error is not None:
                    raise ServiceError(document.error_status, document.error)
            except BaseException:
                context.documents.remove(document.identifier)
                raise
        path = quote(f"{document.identifier}.{document.key}.{document.name}")  # the name may have spaces
        return {"translatedFileUrl": str(request.url_for("download_file", name=path))}

    @endpoints(
        "GET",
        "/download_file/{name}",
        "Download a translated file",
        content=[one.media_type for one in FORMATS.values()],
    )
    async def download_file(request: Request, name: str) -> Response:
        identifier, _, rest = name.partition(".")
        document = context.documents.find(identifier, rest.partition(".")[0])
        if document.content is None:
            raise ServiceError(404, "file: expected a translated file, found none")
        return file_response(document.name, document.content)


def file_response(name: str, content: bytes) -> Response:
    """Return a file to be saved under a name, which RFC 6266 has in UTF-8 beside one for clients of old."""
    form = format_of(name) or FORMATS[".txt"]
    ascii_name = name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    names = f"filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"
    return Response(
        content,
        media_type=form.content_type(content),
        headers={"Content-Disposition": f"attachment; {names}"},
    )


def _answer(found: list[TranslatedText], fields: LibreTranslateFields) -> dict[str, list[Any]]:
    answer: dict[str, list[Any]] = {"translatedText": [one.text for one in found]}
    if fields.source == "auto":
        answer["detectedLanguage"] = [_detection(one.detected or Detected(one.source, 0.0)) for one in found]
    if fields.alternatives:
        answer["alternatives"] = [one.alternatives for one in found]
    if any(len(one.models) > 1 for one in found):
        answer["pivotLanguage"] = [one.pivot for one in found]
    return answer


def _detection(detected: Detected) -> dict[str, Any]:
    return {"confidence": round(100 * detected.confidence, 1), "language": detected.language}

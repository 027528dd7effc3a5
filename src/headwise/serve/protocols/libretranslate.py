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

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from headwise.config.languages import language_name
from headwise.documents.formats import FORMATS, format_of
from headwise.documents.rules import TagRules
from headwise.serve.protocols.context import Context
from headwise.serve.translation.service import Job, Translated
from headwise.text.reading.detection import Detected, detect
from headwise.web.answers import JSONAnswer, body, error_answers
from headwise.web.bodies import CheckedRoute
from headwise.web.errors import ServiceError
from headwise.web.fields import uploaded

_FORMS = ("application/json", "application/x-www-form-urlencoded")
Language = Annotated[str, Field(min_length=1, max_length=40, examples=["en"])]
ApiKey = Annotated[str, Field(max_length=200)]


class TranslateFields(BaseModel):
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

    q: str = Field(examples=["Ein Mann reitet."])
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


class TranslateAnswer(BaseModel):
    """The translations; lists where the texts were a list."""

    translatedText: str | list[str]
    detectedLanguage: Detection | list[Detection] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class LanguageAnswer(BaseModel):
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


def routes(context: Context) -> APIRouter:
    """Return a router with LibreTranslate's endpoints."""
    router = APIRouter(route_class=CheckedRoute, tags=["LibreTranslate"], responses=error_answers("error"))
    models = context.service.models

    @router.post(
        "/translate",
        response_model=TranslateAnswer,
        openapi_extra=body(TranslateFields, *_FORMS),
        summary="Translate texts",
    )
    async def translate(request: Request) -> Response:
        fields = await context.fields(request, TranslateFields)
        client = context.access.client(request, fields.api_key)
        texts = [fields.q] if isinstance(fields.q, str) else fields.q
        if not fields.q:
            raise ServiceError(400, "q: expected a text or a list of texts, found none")
        if fields.alternatives > context.limits.alternatives:
            raise ServiceError(
                400,
                f"alternatives: expected at most {context.limits.alternatives}, found {fields.alternatives}",
            )
        job = Job(
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
        return JSONAnswer(
            {key: value if isinstance(fields.q, list) else value[0] for key, value in answer.items()}
        )

    @router.post(
        "/detect",
        response_model=list[Detection],
        openapi_extra=body(DetectFields, *_FORMS),
        summary="Detect a text's language among those that are served",
    )
    async def detection(request: Request) -> Response:
        fields = await context.fields(request, DetectFields)
        client = context.access.client(request, fields.api_key)
        context.charge(request, client, context.limits.check([fields.q]))
        return JSONAnswer([_detection(one) for one in detect(fields.q, {*models.sources, *models.targets})])

    @router.get("/languages", response_model=list[LanguageAnswer], summary="List the languages")
    async def languages() -> Response:
        codes = sorted({*models.sources, *models.targets})
        return JSONAnswer(
            [
                {"code": code, "name": language_name(code), "targets": models.targets_of(code)}
                for code in codes
            ]
        )

    @router.get("/frontend/settings", response_model=dict[str, Any], summary="List the limits")
    async def settings() -> Response:
        source = models.sources[0] if models.sources else "en"
        target = next(iter(models.targets_of(source)), source)
        return JSONAnswer(
            {
                "charLimit": context.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": context.access.needs_key,
                "keyRequired": context.access.needs_key,
                "suggestions": False,
                "filesTranslation": True,
                "supportedFilesFormat": list(FORMATS),
                "language": {
                    "source": {"code": source, "name": language_name(source)},
                    "target": {"code": target, "name": language_name(target)},
                },
            }
        )

    @router.get("/health", response_model=HealthAnswer, summary="Say that the server is alive")
    async def health() -> Response:
        return JSONAnswer({"status": "ok"})

    @router.post(
        "/suggest", openapi_extra=body(SuggestFields, *_FORMS), summary="Suggest a translation (refused)"
    )
    async def suggest(request: Request) -> Response:
        fields = await context.fields(request, SuggestFields)
        context.access.client(request, fields.api_key)
        raise ServiceError(403, "suggestions are disabled on this server")

    @router.post(
        "/translate_file",
        response_model=FileAnswer,
        openapi_extra=body(FileFields, "multipart/form-data", file=True),
        summary="Translate a file",
    )
    async def translate_file(request: Request) -> Response:
        fields = await context.fields(request, FileFields)
        client = context.access.client(request, fields.api_key)
        name, content = await uploaded(request)
        file = await context.documents.read(name, content)
        source = None if fields.source == "auto" else fields.source
        job = Job([], fields.target, source, client=client.name)
        context.check_languages(job)
        context.charge(request, client, file.characters)
        document = context.documents.start(name, file, job)
        try:
            document = await context.while_connected(request, context.documents.finished(document))
        except BaseException:
            context.documents.remove(document.identifier)
            raise
        if document.error is not None:
            context.documents.remove(document.identifier)
            raise ServiceError(document.error_status, document.error)
        path = f"{document.identifier}.{document.key}.{document.name}"
        return JSONAnswer({"translatedFileUrl": str(request.url_for("download_file", name=path))})

    @router.get(
        "/download_file/{name}",
        response_class=Response,
        responses={
            200: {"content": {one.media_type: {} for one in FORMATS.values()}},
            **error_answers("error", 404),
        },
        summary="Download a translated file",
    )
    async def download_file(name: str) -> Response:
        identifier, _, rest = name.partition(".")
        document = context.documents.find(identifier, rest.partition(".")[0])
        if document.content is None:
            raise ServiceError(404, "file: expected a translated file, found none")
        return file_response(document.name, document.content)

    return router


def file_response(name: str, content: bytes) -> Response:
    """Return a file to be saved under a name."""
    form = format_of(name) or FORMATS[".txt"]
    ascii_name = name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    return Response(
        content,
        media_type=form.content_type,
        headers={"Content-Disposition": f'attachment; filename="{ascii_name}"'},
    )


def _answer(found: list[Translated], fields: TranslateFields) -> dict[str, list[Any]]:
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

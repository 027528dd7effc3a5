"""Fields of a request, in JSON, in a form or in the address, and whether its client is still there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.requests import Request

from headwise.parsing import Malformed, json_value, kind_of
from headwise.web.errors import ClientGone, ServiceError

_MOST_FIELDS = 1_000
_ITEM = re.compile(r"(\w{1,60})\[(\d{1,4})\]\.(\w{1,60})", re.ASCII)
_JSON = re.compile(r"application/(.*\+)?json")
_SHOWN = 60  # characters of a field's name, which the client chooses
Fields = TypeVar("Fields", bound=BaseModel)
T = TypeVar("T")


async def read_fields(request: Request, model: type[Fields], *, most: int, wrong: int, only_json: bool) -> Fields:
    """Return the fields of a request: from a JSON object alone, or from its address and a JSON object or a form.

    `most` are the most bytes of a field, or of a JSON object. Raises `ServiceError`, with the status `wrong`, naming
    the first field that is missing or wrong.
    """
    address = b"" if only_json else request.scope["query_string"]
    values = _from_pairs(_encoded_pairs(address, "address", wrong), model) if address else {}
    kind = _media_type(request)
    if not only_json and kind == "application/x-www-form-urlencoded":
        values |= _from_pairs(_encoded_pairs(await request.body(), "form", wrong), model)
    elif not only_json and kind == "multipart/form-data":
        try:
            form = await request.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=most)
        except UnicodeError:  # of a charset such as punycode
            raise ServiceError(wrong, "form: expected text in UTF-8, found another encoding") from None
        values |= _from_pairs(form, model)
    elif body := await request.body():
        if len(body) > most:
            raise ServiceError(413, f"request: expected at most {most:,} bytes, found {len(body):,}")
        if only_json and not _JSON.fullmatch(kind):  # which a form of a foreign page can't have
            raise ServiceError(wrong, f"request: expected application/json, found {kind[:_SHOWN] or 'no type'}")
        try:
            content = json_value(body)
        except Malformed as problem:
            raise ServiceError(wrong, problem.sentence("request", "JSON")) from None
        if not isinstance(content, dict):
            raise ServiceError(wrong, f"request: expected a JSON object, found {kind_of(content)}")
        values |= content
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first, *others = error.errors(include_input=False, include_url=False)
        raise ServiceError(wrong, _sentence(first["loc"], first["msg"], len(others))) from None


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _sentence(location: tuple[int | str, ...], message: str, others: int) -> str:
    """Return one sentence about a wrong field, without its value, which may be a text."""
    name = ".".join(str(part)[:_SHOWN] for part in location) or "request"
    more = f" (and {others} more)" if others else ""
    message = message.removeprefix("Value error, ")
    return f"{name}: {message[:1].lower()}{message[1:]}{more}"


def _encoded_pairs(encoded: bytes, place: str, wrong: int) -> QueryParams:
    """Return the fields of a form or an address in UTF-8, which may be quoted by %, or, as curl's, stand as it is."""
    try:
        pairs = parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise ServiceError(wrong, f"{place}: expected text in UTF-8, found another encoding") from None
    except ValueError:
        raise ServiceError(wrong, f"{place}: expected at most {_MOST_FIELDS:,} fields, found more") from None
    return QueryParams(pairs)


def _from_pairs(pairs: FormData | QueryParams, model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a form or an address; those of a list occur several times, or as `key[0].name`."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if items := _items(pairs, name):
            values[name] = items
        if found := [one for one in pairs.getlist(name) if not isinstance(one, UploadFile)]:
            values[name] = found if get_origin(field.annotation) is list else found[-1]
    return values


def _items(pairs: FormData | QueryParams, key: str) -> list[dict[str, str]]:
    """Return the objects of a list whose fields are `key[0].name`, in the order of their numbers."""
    found: dict[int, dict[str, str]] = {}
    for name, value in pairs.multi_items():
        match = _ITEM.fullmatch(name)
        if match and match[1] == key and isinstance(value, str):
            found.setdefault(int(match[2]), {})[match[3]] = value
    return [found[number] for number in sorted(found)]


async def uploaded(request: Request) -> tuple[str, UploadFile]:
    """Return the name of the file of a form, and the file; raises `ServiceError` (400)."""
    file = (await request.form()).get("file") if _media_type(request) == "multipart/form-data" else None
    if not isinstance(file, UploadFile) or not file.filename:
        raise ServiceError(400, "file: expected a file in multipart/form-data, found none")
    return file.filename, file


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Await work; cancel it when the client leaves, and raise `ClientGone`. The body must have been read."""
    working = asyncio.current_task()
    assert working is not None
    left = False

    async def watch() -> None:
        nonlocal left
        while (await request.receive())["type"] != "http.disconnect":
            pass
        left = True
        working.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if left and working.uncancel() == 0:
            raise ClientGone from None
        raise
    finally:
        watching.cancel()

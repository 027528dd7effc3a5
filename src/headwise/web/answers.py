"""Answers in JSON, and what FastAPI can't find about them and about bodies in a route's types."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

# `json.dumps` makes an encoder for each call, which takes longer than a short answer.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JSONAnswer(JSONResponse):
    """Starlette's response, with the same bytes."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of a value."""
        return _ENCODER.encode(content).encode("utf-8")


_ERRORS = {
    400: "A field is missing or wrong.",
    422: "A field is missing or wrong.",
    403: "The key is missing or wrong, or the host isn't allowed.",
    408: "The request took too long to arrive.",
    413: "The texts are too long, or too many.",
    429: "Too much waits; `Retry-After` says when to try again. Or the key's quota is used up.",
    500: "The server failed.",
    503: "The server is starting or shutting down.",
    504: "The translation took longer than the deadline.",
}


_FURTHER = {
    404: "What the address names doesn't exist.",
    409: "The run has no model yet.",
    422: "A field is missing or wrong.",
    456: "The key's quota is used up.",
}


def body(model: type[BaseModel], *kinds: str, file: bool = False) -> dict[str, Any]:
    """Return the description of a request body with the fields of a model, in each of some media types."""
    schema = model.model_json_schema()
    if file:
        schema["properties"]["file"] = {"type": "string", "format": "binary"}
        schema.setdefault("required", []).append("file")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def error_answers(key: str, *more: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of the errors, whose sentence is in `key`."""
    schema = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    content = {"application/json": {"schema": schema}}
    codes = _ERRORS | {code: _FURTHER[code] for code in more}
    return {code: {"description": text, "content": content} for code, text in codes.items()}

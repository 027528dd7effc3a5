"""The OpenAPI document of an application's endpoints, from their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from headwise import __version__
from headwise.web.endpoints import FILE, Endpoint

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
    456: "The key's quota is used up.",
}
_SCHEMAS = "#/components/schemas/"


def error_answers(key: str, *more: int) -> dict[int, dict[str, Any]]:
    """Return the descriptions of the errors, whose sentence is in `key`."""
    schema = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    content = {"application/json": {"schema": schema}}
    codes = _ERRORS | {code: _FURTHER[code] for code in more}
    return {code: {"description": text, "content": content} for code, text in codes.items()}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the document about the endpoints that have a tag."""
    shown = [each for each in endpoints if each.group.tag]
    types = [(("answer", id(each)), "serialization", each.answer) for each in shown if not each.content]
    types += [(("fields", id(each)), "validation", each.fields) for each in shown if each.fields]
    inputs: Any = [(key, mode, TypeAdapter(kind)) for key, mode, kind in types]
    found, rest = TypeAdapter.json_schemas(inputs, ref_template=_SCHEMAS + "{model}")
    schemas = {key: schema for (key, _), schema in found.items()}
    definitions = rest.get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for each in shown:
        fields, answer = (schemas.get((part, id(each))) for part in ("fields", "answer"))
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, fields, answer, definitions)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headwise", "version": __version__},
        "paths": paths,
        "components": {"schemas": definitions},
    }


def _operation(
    endpoint: Endpoint,
    fields: dict[str, Any] | None,
    answer: dict[str, Any] | None,
    definitions: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """Describe an endpoint by the schemas of its fields and its answer, which refer to the definitions."""
    parameters = [_parameter(name, "path", {"type": "string"}, True) for name in endpoint.param_convertors]
    operation: dict[str, Any] = {
        "tags": [endpoint.group.tag],
        "summary": endpoint.summary,
        "operationId": re.sub(r"\W+", "_", f"{endpoint.name}{endpoint.path}_{endpoint.method.lower()}"),
    }
    if fields is not None:
        schema = definitions[fields["$ref"].removeprefix(_SCHEMAS)]
        required = schema.get("required", [])
        if not endpoint.kinds:
            parameters += [
                _parameter(name, "query", one, name in required) for name, one in schema["properties"].items()
            ]
        else:
            if endpoint.kinds == FILE:
                file = {"file": {"type": "string", "format": "binary"}}
                fields = schema | {"properties": schema["properties"] | file, "required": [*required, "file"]}
            content = {kind: {"schema": fields} for kind in endpoint.kinds}
            operation["requestBody"] = {"required": True, "content": content}
    if parameters:
        operation["parameters"] = parameters
    success: dict[str, Any] = {"description": "Successful Response"}
    if endpoint.content:
        success["content"] = {kind: {} for kind in endpoint.content}
    elif endpoint.status != 204:
        success["content"] = {"application/json": {"schema": answer}}
    operation["responses"] = {str(endpoint.status): success} | {
        str(code): error for code, error in endpoint.group.errors.items()
    }
    return operation


def _parameter(name: str, place: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}

"""An OpenAPI document as a page, without scripts and other hosts."""

from __future__ import annotations

import json
from html import escape
from typing import Any


def page(description: dict[str, Any]) -> str:
    """Return an OpenAPI document as HTML."""
    parts: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            parts.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    title = escape(f"{description['info']['title']} {description['info']['version']}")
    return "".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: HTTP interface</title>',
            '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/css/base.css"></head>',
            f'<body><main><h1>{title}: HTTP interface</h1><p><a href="/openapi.json">openapi.json</a></p>',
            *(f"<h2>{escape(group)}</h2>{''.join(operations)}" for group, operations in parts.items()),
            "<h2>Schemas</h2>",
            *(
                f'<details id="{escape(name)}"><summary>{escape(name)}</summary>{_json(schema)}</details>'
                for name, schema in description["components"]["schemas"].items()
            ),
            "</main></body></html>",
        ]
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    """Return one operation as a closed section."""
    rows = [
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td><td>{_json(one['schema'])}</td></tr>"
        for one in operation.get("parameters", [])
    ]
    bodies = [
        f"<p>Body, <code>{escape(kind)}</code>:</p>{_json(content['schema'])}"
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    ]
    answers = [
        f"<p><b>{escape(status)}</b> {escape(answer['description'])}</p>"
        for status, answer in operation["responses"].items()
    ]
    summary = f"<code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}"
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<details><summary>{summary}</summary>{table}{''.join(bodies)}{''.join(answers)}</details>"


def _json(schema: Any) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"

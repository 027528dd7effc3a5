"""Error responses: one sentence, escaped, of limited length, under the name that a protocol has for it."""

from __future__ import annotations

from starlette.responses import JSONResponse

_MOST_MESSAGE = 400  # characters of an error message, which may quote a whole request


def failure(path: str, status: int, sentence: str, retry_after: int | None = None) -> JSONResponse:
    """Return an error response for a request to `path`; `retry_after` are seconds."""
    if retry_after is None and status == 503:
        retry_after = 1
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence[:_MOST_MESSAGE])
    key = "message" if path.startswith(("/v2/", "/v3/")) else "error"
    headers = None if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse({key: line + "…" * (len(sentence) > _MOST_MESSAGE)}, status_code=status, headers=headers)

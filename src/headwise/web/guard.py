"""Middleware before every route: a limit on body sizes, and security headers for every response."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.web.failures import failure

# Of a body for the page: 5,000 characters of text and of a target, and many interventions.
MOST_BYTES = 256 * 1024
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _ in _RAW_HEADERS)


class RequestGuard:
    """Middleware that refuses too long a body before it is read, and adds headers to every response."""

    def __init__(self, app: ASGIApp, most: int, by_path: Mapping[str, int]) -> None:
        """Refuse bodies of more than `most` bytes, or for the page's interface of more than `MOST_BYTES`.

        `by_path` has the most bytes for paths that have another bound.
        """
        self.app, self._most, self._by_path = app, most, by_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application; add the headers to the response in either case."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [header for header in message["headers"] if header[0] not in _NAMES]
                message = {**message, "headers": own + _RAW_HEADERS}
            await send(message)

        length, chunked = b"0", False
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                chunked = True
        valid = length.isdigit() and len(length) < 20
        path = scope["path"]
        most = self._by_path.get(path, MOST_BYTES if path.startswith("/api/") else self._most)
        if chunked or not valid or int(length) > most:
            sentence = f"request: expected at most {most:,} bytes with their number in Content-Length"
            await failure(path, 413, sentence)(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)

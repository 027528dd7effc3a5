"""Middleware before every route: a limit on body sizes, and security headers for every response."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.web.errors import ServiceError
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
    """Middleware that refuses too long a body before it is read further, and adds headers to every response."""

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
        path = scope["path"]
        most = self._by_path.get(path, MOST_BYTES if path.startswith("/api/") else self._most)
        received, begun = 0, False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = [header for header in message["headers"] if header[0] not in _NAMES]
                message = {**message, "headers": own + _RAW_HEADERS}
            await send(message)

        async def bounded() -> Message:
            """Receive the next part of a body; of one that comes in chunks, its length is known at its end only."""
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received <= most:
                return message
            if begun:  # nobody reads it
                return {"type": "http.disconnect"}
            raise ServiceError(413, f"request: expected at most {most:,} bytes, found more")

        # The server's parser has refused a length that isn't a number.
        length = int(next((value for name, value in scope["headers"] if name == b"content-length"), b"0"))
        if length > most:
            sentence = f"request: expected at most {most:,} bytes, found {length:,}"
            await failure(path, 413, sentence)(scope, receive, with_headers)
            return
        await self.app(scope, bounded, with_headers)

"""A real server in a thread, and raw sockets, for requests that no HTTP client would send."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from headwise.web.connections import Limits
from headwise.web.server import listen, server


@contextmanager
def serving(app: ASGIApp, limits: Limits | None = None, finish: int = 3) -> Iterator[int]:
    """Context manager that serves an application; yields the port. At the end, requests have `finish` seconds."""
    listener = listen("127.0.0.1", 0)
    served = server(app, limits, log_level="critical", finish=finish)
    thread = threading.Thread(target=served.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not served.started:
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        served.should_exit = True
        thread.join()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    """Open a connection and send `sent`."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(sent)
    return connection


def everything(connection: socket.socket) -> bytes:
    """Read until the server closes the connection; raises `TimeoutError` where it doesn't."""
    with connection:
        parts: list[bytes] = []
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                parts.append(part)
        return b"".join(parts)


def ask(port: int, head: str) -> tuple[int, bytes]:
    """Send the request line and headers in `head` with `Connection: close`; return the status and the raw response."""
    answer = everything(connect(port, (head + "\nConnection: close\n\n").replace("\n", "\r\n").encode("latin-1")))
    return int(answer.split(b" ", 2)[1]), answer

"""HTTP servers on this machine that serve files with faults, or answer with any bytes."""

from __future__ import annotations

import hashlib
import random
import re
import socket
import socketserver
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = random.Random(3).randbytes(300_000).hex().encode()  # 600,000 bytes, longer than any socket buffer block


class Server(ThreadingHTTPServer):
    """Serves `files`; lists and flags set the faults of the next responses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[str | None] = []  # the Range header of each request
        self.break_after: list[int] = []  # bytes sent before each of the next connections is cut
        self.failures: list[int] = []  # status codes of the next responses
        self.stalls = 0  # number of next responses that stall
        self.ranges = True
        self.wrong_range = False
        self.etags = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server, range_header = self.server, self.headers.get("Range")
        server.requests.append(range_header)
        if server.stalls:
            server.stalls -= 1
            time.sleep(0.6)
            return
        if server.failures:
            self.send_error(server.failures.pop(0))
            return
        data = server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        start = int(re.fullmatch(r"bytes=(\d+)-", range_header)[1]) if range_header and server.ranges else 0  # type: ignore[index]
        if self.headers.get("If-Range", etag) != etag:
            start = 0
        if start >= len(data) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.end_headers()
            return
        if start and server.wrong_range:
            server.wrong_range = False
            start += 1
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if server.etags:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        stop = start + server.break_after.pop(0) if server.break_after else len(data)
        self.wfile.write(data[start:stop])
        if stop < len(data):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


class Raw(socketserver.ThreadingTCPServer):
    """Server that answers every request with the same bytes, valid HTTP or not."""

    daemon_threads = True
    answer = b""
    requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file"


class RawAnswer(socketserver.StreamRequestHandler):
    server: Raw  # pyright: ignore[reportIncompatibleVariableOverride]

    def handle(self) -> None:
        self.server.requests += 1
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        self.wfile.write(self.server.answer)


class Sleeps(list[float]):
    """Replacement for `time.sleep` that records its calls."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)

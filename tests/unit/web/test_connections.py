"""Connections whose clients stall: each is ended, and the server answers other clients meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from headwise.page.application import page_app
from headwise.web.connections import Limits
from headwise.web.guard import RequestGuard
from serve_sockets import ask, connect, everything, serving
from waiting import until

LARGE = 64 * 1024 * 1024  # bytes; more than any kernel buffers for a client that doesn't read
QUICK = Limits(head=0.5, body=0.5, idle=1, fetch=0.5, slowest=1e4, connections=8, head_bytes=4096)
PATIENT = Limits(head=600, body=600, idle=600, fetch=600, connections=8)  # the number of connections only


class Plain:
    """Application that reads the body, then answers; counts the clients that disconnect before that."""

    def __init__(self) -> None:
        self.gone = 0
        self.open = threading.Event()
        self.open.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            self.gone += 1
            return
        answer: Response = PlainTextResponse(f"read {len(body)}")
        if scope["path"] == "/large":
            answer = PlainTextResponse(b"a" * LARGE)
        await answer(scope, receive, send)


@pytest.fixture
def app() -> Plain:
    return Plain()


@pytest.fixture
def port(app: Plain) -> Iterator[int]:
    with serving(app, QUICK) as port:
        yield port


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


def trickle(connection: socket.socket, piece: bytes) -> bytes:
    """Send a piece every 0.1 seconds until the server closes the connection; return its answer."""
    stop = threading.Event()

    def send() -> None:
        try:
            while not stop.wait(0.1):
                connection.sendall(piece)
        except OSError:
            pass

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return everything(connection)
    finally:
        stop.set()
        thread.join()


def answered(port: int) -> bool:
    return b"read 0" in ask(port, "GET / HTTP/1.1\nHost: localhost")[1]


def test_a_head_that_never_ends_is_ended(port: int) -> None:
    slow = connect(port, HEAD + b"X-Slow: ")
    assert answered(port)
    answer = trickle(slow, b"a")
    assert b" 408 " in answer
    assert b"request: expected its head within 0.5 seconds, found no end of it" in answer


def test_a_body_that_never_ends_is_ended(port: int, app: Plain) -> None:
    slow = connect(port, HEAD + b"Content-Length: 100000\r\n\r\n")
    assert answered(port)
    answer = trickle(slow, b" ")
    assert b" 408 " in answer
    assert b"request: expected its body within 0.5 seconds, found no end of it" in answer
    until(lambda: app.gone == 1)  # nobody waits for it any more


def test_the_second_request_of_a_connection_has_the_same_deadlines(port: int) -> None:
    whole = HEAD + b"Content-Length: 2\r\n\r\n{}"
    answer = trickle(connect(port, whole + HEAD + b"X-Slow: "), b"a")
    assert b"read 2" in answer
    assert answer.count(b"HTTP/1.1") in (1, 2)  # 408, or nothing more where the idle time ends first
    answer = trickle(connect(port, whole + HEAD + b"Content-Length: 100000\r\n\r\n"), b" ")
    assert b"read 2" in answer
    assert b" 408 " in answer


@pytest.mark.parametrize("sent", [b"", HEAD + b"\r\n"])
def test_a_connection_without_a_request_is_ended(port: int, sent: bytes) -> None:
    answer = everything(connect(port, sent))
    assert answer.count(b"HTTP/1.1") == bool(sent)
    assert b"408" not in answer


def test_an_answer_that_nobody_fetches_is_ended(port: int) -> None:
    deaf = connect(port, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answered(port)
    with deaf:
        # Sending fails once the server has ended the connection, so the test needn't read.
        def ended() -> bool:
            try:
                deaf.sendall(b"\r\n")
            except OSError:
                return True
            return False

        until(ended)


def test_an_answer_that_is_fetched_is_whole(port: int) -> None:
    assert len(ask(port, "GET /large HTTP/1.1\nHost: localhost")[1]) > LARGE


def test_a_head_beyond_its_bound_is_refused(port: int) -> None:
    answer = everything(connect(port, HEAD + b"X: " + b"a" * 3 * QUICK.head_bytes))
    assert answered(port)
    assert b" 400 " in answer or answer == b""  # the system may drop an answer if unread bytes are left


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\na",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 3000 + b"\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_a_sentence(port: int, sent: bytes) -> None:
    answer = everything(connect(port, sent))
    assert b" 400 " in answer
    assert b'{"error": "request: expected HTTP/1.1 with a head of at most 4,096 bytes"}' in answer
    assert answered(port)


@pytest.mark.parametrize(
    "held",
    [
        b"",
        HEAD,
        HEAD + b"Content-Length: 10\r\n\r\n",
        HEAD + b"\r\n",
        b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=["nothing", "head", "body", "idle", "deaf"],
)
def test_who_only_holds_on_loses_the_place_to_who_asks(app: Plain, held: bytes) -> None:
    with serving(app, PATIENT) as port:
        holders = [connect(port, held) for _ in range(3 * PATIENT.connections)]
        try:
            for _ in range(PATIENT.connections):
                assert answered(port)
        finally:
            for holder in holders:
                holder.close()


def test_those_who_are_being_answered_keep_their_places(app: Plain) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.concurrency import run_in_threadpool

        if scope["type"] != "http":
            return
        entered.release()
        await run_in_threadpool(leave.wait)
        await PlainTextResponse("done")(scope, receive, send)

    with serving(slow, PATIENT) as port:
        asking = [connect(port, b"GET / HTTP/1.0\r\n\r\n") for _ in range(PATIENT.connections)]
        try:
            for _ in asking:
                assert entered.acquire(timeout=60)
            refused = everything(connect(port))
            assert b" 503 " in refused
            assert b"the server has no place for another connection" in refused
        finally:
            leave.set()
        assert all(everything(one).endswith(b"done") for one in asking)


TRACE = "POST /api/trace HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"


def test_a_body_beyond_its_bound_is_refused_before_it_comes() -> None:
    with serving(page_app({}), QUICK) as port:
        status, answer = ask(port, TRACE + "Content-Length: 10000000000")
        assert status == 413
        assert b"request: expected at most 262,144 bytes, found 10,000,000,000" in answer
        assert ask(port, "GET /api/runs HTTP/1.1\nHost: localhost")[0] == 200


def test_a_body_in_chunks_is_read_up_to_its_bound() -> None:
    def answer(chunks: int) -> bytes:
        body = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        head = (TRACE + "Connection: close\nTransfer-Encoding: chunked\n\n").replace("\n", "\r\n").encode()
        return everything(connect(port, head + body * chunks + b"0\r\n\r\n"))

    with serving(page_app({}), PATIENT) as port:
        assert b"request: expected JSON" in answer(64)
        refused = answer(65)
        assert b" 413 " in refused
        assert b"request: expected at most 262,144 bytes, found more" in refused
        assert ask(port, "GET /api/runs HTTP/1.1\nHost: localhost")[0] == 200


def test_a_body_that_nobody_reads_any_more_ends_like_a_client_that_left() -> None:
    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b"left"})

    guarded = RequestGuard(early, 8 * 0x1000, {})
    sent = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    with serving(guarded, PATIENT) as port:
        answer = everything(connect(port, HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + sent * 9))
    assert b"left" in answer


WHOLE = HEAD + b"Content-Length: 2\r\n\r\n{}"


def test_requests_that_come_at_once_are_answered_in_order(port: int) -> None:
    last = HEAD + b"Content-Length: 3\r\nConnection: close\r\n\r\n[1]"
    answer = everything(connect(port, 5 * WHOLE + last))
    assert answer.count(b" 200 ") == 6
    assert answer.count(b"read 2") == 5
    assert answer.endswith(b"read 3")


def test_too_many_requests_at_once_are_not_kept(port: int) -> None:
    answer = everything(connect(port, 5_000 * WHOLE))
    assert 1 <= answer.count(b" 200 ") < 100


def test_garbage_behind_a_request_is_refused_after_its_answer(port: int) -> None:
    answer = everything(connect(port, WHOLE + b"\x16\x03\x01\x02\r\n\r\n"))
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(b"read 2")


def test_another_protocol_is_not_spoken(port: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    request = HEAD + offer + b"Content-Length: 2\r\n\r\n{}"  # as Java's client begins
    answer = everything(connect(port, request + request + HEAD + b"Connection: close\r\n\r\n"))
    assert answer.count(b"read 2") == 2
    assert answer.endswith(b"read 0")


@pytest.mark.parametrize(
    "endless",
    [b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"Transfer-Encoding: chunked\r\n\r\n1;"],
    ids=["trailer", "extension"],
)
def test_what_stands_between_parts_of_a_body_is_bounded(port: int, endless: bytes) -> None:
    connection = connect(port, HEAD + endless)
    for _ in range(4):
        connection.sendall(b"a" * (QUICK.head_bytes // 2))
        time.sleep(0.02)
    answer = everything(connection)
    assert b" 400 " in answer or answer == b""  # the system may drop an answer if unread bytes are left


@pytest.mark.parametrize("version", [b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"ICE/1.0"])
def test_other_versions_are_refused(port: int, version: bytes) -> None:
    assert b" 400 " in everything(connect(port, b"GET / " + version + b"\r\nHost: localhost\r\n\r\n"))

"""Downloads from servers with faults: what can be mended is, and anything else is one sentence."""

from __future__ import annotations

import random
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from headwise.corpora import download
from headwise.corpora.download import ATTEMPTS, fetch
from headwise.errors import DataError, TrainingError
from http_servers import TEXT, Raw, Server, Sleeps

BODY = b"a line\n" * 10


def test_a_file_arrives_whole_and_progress_counts_every_byte(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    part = tmp_path / "text.part"
    fetch(f"{server.url}/text", part, progress=lambda *event: seen.append(event))
    assert part.read_bytes() == TEXT
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert seen[-1] == ("text", len(TEXT), len(TEXT))
    assert [path.name for path in tmp_path.iterdir()] == ["text.part"]


# Faults of the next responses, the Range headers of the requests, and the seconds that are waited between them. An
# attempt that made progress starts the waiting anew.
MENDED: dict[str, tuple[dict[str, Any], list[str | None], list[float]]] = {
    "broken connections": (
        {"break_after": [100_000, 250_000]},
        [None, "bytes=100000-", "bytes=350000-"],
        [1.0, 1.0],
    ),
    "no ranges": ({"break_after": [100_000], "ranges": False}, [None, "bytes=100000-"], [1.0]),
    "another range": (
        {"break_after": [50_000], "wrong_range": True},
        [None, "bytes=50000-", None],
        [1.0, 2.0],
    ),
    "busy": ({"failures": [503, 429]}, [None] * 3, [1.0, 2.0]),
    "silent": ({"stalls": 1}, [None] * 2, [1.0]),
}


@pytest.mark.parametrize(("faults", "requests", "waited"), MENDED.values(), ids=MENDED.keys())
def test_a_fault_is_mended_and_every_byte_is_right(
    faults: dict[str, Any],
    requests: list[str | None],
    waited: list[float],
    server: Server,
    tmp_path: Path,
    sleeps: Sleeps,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    for name, value in faults.items():
        setattr(server, name, value)
    fetch(f"{server.url}/text", tmp_path / "text.part")
    assert (tmp_path / "text.part").read_bytes() == TEXT
    assert (server.requests, sleeps) == (requests, waited)
    warned = any("doesn't resume" in record.getMessage() for record in caplog.records)
    assert warned == (not server.ranges)


def test_any_sequence_of_breaks_gives_the_same_bytes(server: Server, tmp_path: Path) -> None:
    rng = random.Random(11)
    for round_ in range(10):
        server.break_after = [rng.choice([0, 1, 7, 65_536, rng.randrange(200_000)]) for _ in range(3)]
        part = tmp_path / f"{round_}.part"
        fetch(f"{server.url}/text", part)
        assert part.read_bytes() == TEXT


def test_an_interrupted_call_is_continued_by_the_next(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "text.part"

    def interrupt(name: str, done: int, total: int | None) -> None:
        if done > 200_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server.url}/text", part, progress=interrupt)
    have = part.stat().st_size
    assert 200_000 < have < len(TEXT)
    fetch(f"{server.url}/text", part)
    assert part.read_bytes() == TEXT
    assert server.requests == [None, f"bytes={have}-"]


def test_a_file_that_changed_since_is_not_joined_to_its_old_beginning(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "text.part"
    server.break_after = [100_000, 0, 0, 0]
    with pytest.raises(DataError):
        fetch(f"{server.url}/text", part)
    assert part.read_bytes() == TEXT[:100_000]
    server.files["/text"] = changed = TEXT[::-1]
    fetch(f"{server.url}/text", part)
    assert part.read_bytes() == changed


@pytest.mark.parametrize("already", [len(TEXT), len(TEXT) + 5])
def test_a_part_that_is_complete_or_too_long_ends_up_right(server: Server, tmp_path: Path, already: int) -> None:
    part = tmp_path / "text.part"
    part.write_bytes((TEXT + b"extra")[:already])
    fetch(f"{server.url}/text", part)
    assert part.read_bytes() == TEXT
    assert len(server.requests) == (1 if already == len(TEXT) else 2)


@pytest.mark.parametrize("end", [None, len(TEXT)])
def test_a_part_that_another_process_finishes_during_the_request_stays_whole(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int | None
) -> None:
    """The other process has taken the file, or is about to read it."""
    part, opened = tmp_path / "text.part", download._open
    part.write_bytes(TEXT[:100_000])

    def open_late(*arguments: Any) -> Any:
        response = opened(*arguments)
        if len(server.requests) == 1:
            part.unlink() if end is None else part.write_bytes(TEXT[:end])
        return response

    monkeypatch.setattr(download, "_open", open_late)
    received: list[int] = []
    fetch(f"{server.url}/text", part, progress=lambda name, done, total: received.append(done))
    assert part.read_bytes() == TEXT
    assert bool(received) == (end is None)  # otherwise nothing of it is written again


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_refusal_is_final_and_names_the_address(server: Server, tmp_path: Path, sleeps: Sleeps, status: int) -> None:
    server.failures = [status]
    with pytest.raises(DataError, match=rf"{server.url}/text: the server answered {status} "):
        fetch(f"{server.url}/text", tmp_path / "text.part")
    assert len(server.requests) == 1
    assert sleeps == []


def test_no_server_at_all_is_one_clear_sentence(
    tmp_path: Path, sleeps: Sleeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/text"  # bound and not listening: refused
        with pytest.raises(DataError) as error:
            fetch(url, tmp_path / "text.part")
    message = str(error.value)
    assert message.startswith(f"{url}: can't be downloaded, {ATTEMPTS} attempts in a row failed")
    assert "Connection refused" in message
    assert "--from DIR" in message
    assert sleeps == [1.0, 2.0, 4.0]


def test_an_unknown_host_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")

    def fail(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(DataError, match="Name or service not known"):
        fetch("http://no-such-host.invalid/text", tmp_path / "text.part")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_disk_that_fills_up_is_named(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "text.part"
    part.symlink_to("/dev/full")
    with pytest.raises(TrainingError, match=r"text\.part: can't be written because the disk is full"):
        fetch(f"{server.url}/text", part)


def test_a_disk_too_small_is_refused_before_the_download(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(TrainingError, match="600,000 more bytes are needed and 1,000 are free"):
        fetch(f"{server.url}/text", tmp_path / "text.part")
    assert not (tmp_path / "text.part").exists()


def _head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "Connection: close", "", ""]).encode("latin-1")


_OK = [
    _head(f"Content-Length: {len(BODY)}") + BODY,
    _head() + BODY,
    _head("Transfer-Encoding: chunked") + b"46\r\n" + BODY + b"\r\n0\r\n\r\n",
    _head("Transfer-Encoding: chunked", "Content-Length: -7") + b"46\r\n" + BODY + b"\r\n0\r\n\r\n",
    _head(f"Content-Length: {len(BODY)}", 'ETag: "' + "é" * 50 + '"') + BODY,
    _head(f"Content-Length: {len(BODY)}", 'ETag: "a', ' b"') + BODY,  # folded
]


@pytest.mark.parametrize("answer", _OK, ids=range(len(_OK)))
def test_an_unusual_answer_that_is_right_is_taken(raw: Raw, tmp_path: Path, answer: bytes) -> None:
    raw.answer = answer
    fetch(raw.url, tmp_path / "file.part", most=10_000)
    assert (tmp_path / "file.part").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["file.part"]


_ODD = [
    (_head("Content-Length: -5") + BODY, "expected a number of bytes in the server's Content-Length, found '-5'"),
    (_head("Content-Length: many") + BODY, "Content-Length, found 'many'"),
    (_head("Content-Length: \xb2") + BODY, "Content-Length, found '\xb2'"),
    (_head("Content-Length: " + "9" * 5_000) + BODY, "Content-Length, found '999"),
    (_head("Content-Length: 999999999999999999") + BODY, "expected at most 10,000 bytes, found"),
    (_head() + BODY * 1_000, "expected at most 10,000 bytes, found that the server sends more"),
    (_head("Transfer-Encoding: chunked") + b"fffff\r\n" + BODY * 2_000, "expected at most 10,000 bytes"),
    (_head("Transfer-Encoding: chunked") + b"-1\r\n" + BODY, f"{ATTEMPTS} attempts in a row failed"),
    (_head("Transfer-Encoding: chunked") + b"-5\r\n" + BODY, f"{ATTEMPTS} attempts in a row failed"),
    (_head("Transfer-Encoding: chunked") + b"zz\r\n" + BODY, f"{ATTEMPTS} attempts in a row failed"),
    (_head("Content-Range: bytes 5-9/10", status="206 Partial Content") + BODY, "resumed at another byte than asked"),
    (_head(status="206 Partial Content") + BODY, "resumed at another byte than asked"),
    (_head("Location: file:///etc/passwd", status="302 Found"), "'file:///etc/passwd' is not allowed"),
    (_head("Location: ftp://127.0.0.1/x", status="302 Found"), "expected a redirect to http or https, found"),
    (_head("Location: data:,x", status="302 Found"), "Redirection to url 'data:,x' is not allowed"),
    (_head("Location: http://[", status="302 Found"), "the server's answer can't be used"),
    (_head("Location: /file", status="302 Found"), "the server answered 302"),
    (_head(status="404 \x1b[2J gone"), "the server answered 404 ?[2J gone"),
    (_head("Content-Range: bytes */" + "9" * 5_000, status="416 Range"), f"{ATTEMPTS} attempts in a row failed"),
    (b"HTTP/1.1 2x0 OK\r\n\r\n", f"{ATTEMPTS} attempts in a row failed"),
    (b"\xff" * 100_000, f"{ATTEMPTS} attempts in a row failed"),
    (_head(*(f"X-{i}: 1" for i in range(200))), f"{ATTEMPTS} attempts in a row failed"),
    (b"", f"{ATTEMPTS} attempts in a row failed"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "sentence"), _ODD, ids=range(len(_ODD)))
def test_an_odd_answer_is_one_sentence(raw: Raw, tmp_path: Path, answer: bytes, sentence: str) -> None:
    raw.answer = answer
    with pytest.raises(DataError) as caught:
        fetch(raw.url, tmp_path / "file.part", most=10_000)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(raw.url)
    assert str(caught.value).isprintable()


def test_another_scheme_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(DataError, match="begins with http or https"):
        fetch((tmp_path / "secret").as_uri(), tmp_path / "file.part")


def test_bytes_that_come_again_and_again_are_no_progress(server: Server, tmp_path: Path) -> None:
    """Every attempt restarts from the first byte and is interrupted: it receives bytes, but none of them is new."""
    server.etags, server.ranges = False, False
    server.break_after = [1_000] * 100
    with pytest.raises(DataError, match="attempts in a row failed"):
        fetch(f"{server.url}/text", tmp_path / "text.part")
    assert len(server.requests) == ATTEMPTS


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"text\.part: can't be written \(.+\)"):
        fetch(f"{server.url}/text", tmp_path / "file" / "text.part")

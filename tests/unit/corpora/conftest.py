"""Servers for the tests of downloads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import TCPServer

import pytest

from http_servers import TEXT, Raw, RawAnswer, Server, Sleeps


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running, _serving(running, monkeypatch):
        running.files["/text"] = TEXT
        yield running


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[Raw]:
    with Raw(("127.0.0.1", 0), RawAnswer) as running, _serving(running, monkeypatch):
        yield running


@contextmanager
def _serving(server: TCPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve in a thread."""
    monkeypatch.setenv("no_proxy", "*")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield
    server.shutdown()
    thread.join()


@pytest.fixture(autouse=True)
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    """Keep downloads from waiting between attempts."""
    sleeps = Sleeps()
    monkeypatch.setattr("headwise.corpora.download.sleep", sleeps)
    return sleeps

"""What is used of uvicorn and isn't documented: a later release may not have it, so the range of releases ends."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import uvicorn
from packaging.requirements import Requirement
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

# The attributes that `headwise.web.connections` reads or extends, and `headwise.serve.workers.worker` sets.
CALLBACKS = (
    *("connection_made", "connection_lost", "data_received", "on_response_complete", "pause_writing"),
    *("on_message_begin", "on_header", "on_headers_complete", "on_body", "on_message_complete"),
    "_unset_keepalive_if_required",
)
STATE = (
    *("loop", "parser", "connections", "transport", "flow", "timeout_keep_alive_task"),
    *("scope", "headers", "url", "cycle", "pipeline"),
)


def test_the_range_ends_after_the_release_that_is_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    needed = map(Requirement, project["optional-dependencies"]["serve"])
    [found] = [each for each in needed if each.name == "uvicorn"]
    assert any(bound.operator == "<" for bound in found.specifier)
    assert version("uvicorn") in found.specifier


def test_the_protocol_has_what_the_limits_need() -> None:
    config = uvicorn.Config(_app, loop="none")
    config.load()
    protocol = HttpToolsProtocol(config, ServerState(), {}, _Loop())  # type: ignore[arg-type]
    protocol.on_message_begin()
    for name in (*CALLBACKS, *STATE):
        assert hasattr(protocol, name), name
    named = RequestResponseCycle.__init__.__code__.co_names
    used = {
        "response_complete",
        "response_started",
        "more_body",
        "disconnected",
        "keep_alive",
        "message_event",
    }
    assert used <= {*named}
    assert {400, 408, 503} <= set(STATUS_LINE)


def test_the_server_has_what_workers_set() -> None:
    config = uvicorn.Config(_app)
    config.load()
    assert isinstance(config.encoded_headers, list)
    assert isinstance(ServerState().default_headers, list)
    assert not uvicorn.Server(config).started


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    """Do nothing."""


class _Loop:
    """Stands in for an event loop, which the protocol's constructor only keeps."""

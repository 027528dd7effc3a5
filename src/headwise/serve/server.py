"""The web server: one process on one port, until Ctrl-C."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Mapping, Sequence

import uvicorn
from starlette.types import ASGIApp

from headwise.errors import ConfigError
from headwise.serve.app import create_app
from headwise.serve.evaluation_pairs import EvaluationPairs
from headwise.serve.production import Production
from headwise.serve.protection.connections import Limits, protocol
from headwise.serve.protection.hosts import Hosts
from headwise.serve.runs import Run

_SECONDS_TO_FINISH = 3


def serve(
    runs: Mapping[str, Run],
    host: str,
    port: int,
    say: Callable[[str], None],
    corpus: EvaluationPairs | None = None,
    allowed: Sequence[str] = (),
    production: Production | None = None,
) -> None:
    """Serve the runs; `say` gets the URL once the port is bound. `allowed` holds further host names to accept.

    With `production`, they translate for clients, too; what was accepted is finished before the server ends.

    Raises `ConfigError` if the port is in use, the host isn't this machine's, or an allowed name is invalid.
    """
    Hosts(host, allowed)  # raises for an invalid name before the port is bound
    with listen(host, port) as listener:
        address, bound_port = listener.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        say(f"http://{url_host}:{bound_port}/")
        app = create_app(runs, corpus, Hosts(host, allowed, address), production)
        finish = _SECONDS_TO_FINISH if production is None else math.ceil(production.limits.seconds) + 1
        server(app, log_level="warning", finish=finish).run(sockets=[listener])


def server(
    app: ASGIApp, limits: Limits | None = None, log_level: str = "warning", finish: int = _SECONDS_TO_FINISH
) -> uvicorn.Server:
    """Return a uvicorn server for an application whose connections keep to the limits.

    `finish` are the seconds that it gives requests in progress when it is told to end.
    """
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        http=protocol(limits),
        ws="none",
        log_level=log_level,
        timeout_keep_alive=limits.idle,
        h11_max_incomplete_event_size=limits.head_bytes,
        timeout_graceful_shutdown=finish,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the port, 0 for any free one; raises `ConfigError` if it can't be bound."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # so that a port in use raises now on every system
    except OSError as error:
        if listener is not None:
            listener.close()
        reason = error.strerror or str(error)
        raise ConfigError(
            f"--host {host} --port {port}: expected a free port, found that {reason.lower()}"
        ) from None
    return listener

"""The web server: its socket, and one process that serves until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from headwise.errors import ConfigError
from headwise.web.connections import Limits, protocol
from headwise.web.hosts import Hosts
from headwise.web.reloading import settle

BACKLOG = 2_048  # connections that wait to be accepted
SECONDS_TO_FINISH = 3


@contextmanager
def listening(
    host: str, port: int, allowed: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[socket.socket, Hosts]]:
    """Context manager that gives a socket on the port and the host names to accept, also those `allowed`.

    `say` gets the URL. Raises `ConfigError` if the port is in use, the host isn't this machine's, or an allowed name is
    invalid.
    """
    Hosts(host, allowed)  # raises for an invalid name before the port is bound
    with listen(host, port) as listener:
        address, bound_port = listener.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        say(f"http://{url_host}:{bound_port}/")
        yield listener, Hosts(host, allowed, address)


def serve(app: ASGIApp, listener: socket.socket, finish: int = SECONDS_TO_FINISH) -> None:
    """Serve an application in this process; requests in progress are given `finish` seconds before it ends."""
    settle()
    server(app, finish=finish).run(sockets=[listener])


def server(
    app: ASGIApp,
    limits: Limits | None = None,
    log_level: str = "warning",
    finish: int = SECONDS_TO_FINISH,
    accepted_at_once: int = BACKLOG,
) -> uvicorn.Server:
    """Return a uvicorn server for an application whose connections keep to the limits.

    `finish` are the seconds that it gives requests in progress when it is told to end, `accepted_at_once` the most
    connections that it takes before it does anything else.
    """
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        http=protocol(limits),
        ws="none",
        log_level=log_level,
        timeout_keep_alive=limits.idle,
        timeout_graceful_shutdown=finish,
        backlog=accepted_at_once,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the port, 0 for any free one; raises `ConfigError` if it can't be bound."""
    if host == "*":  # which some systems resolve, to the loopback interface alone
        raise ConfigError("--host: expected a name or an address, found '*' (0.0.0.0 is every address of IPv4)")
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # so that a port in use raises now on every system
    except (OSError, UnicodeError) as error:  # UnicodeError: an empty or too long part of a name
        if listener is not None:
            listener.close()
        reason = error.strerror or str(error) if isinstance(error, OSError) else "no host can have this name"
        raise ConfigError(f"--host {host} --port {port}: expected a free port, found that {reason.lower()}") from None
    return listener

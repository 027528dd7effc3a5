"""Serving: one process, one port, until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

import uvicorn

from headwise.errors import ConfigError
from headwise.serve.app import create_app
from headwise.serve.corpora import Corpus
from headwise.serve.runs import Run


def serve(
    runs: Mapping[str, Run], host: str, port: int, say: Callable[[str], None], corpus: Corpus | None = None
) -> None:
    """Serve the runs; `say` gets the address once the port is ours.

    Raises `ConfigError` where the port is in use, or the host isn't this machine's.
    """
    with listen(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{listener.getsockname()[1]}/")
        config = uvicorn.Config(
            create_app(runs, corpus), log_level="warning", timeout_graceful_shutdown=3, ws="none"
        )
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Take the port; 0 takes a free one."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # so that a port in use shows now on every system
    except OSError as error:
        if listener is not None:
            listener.close()
        reason = error.strerror or str(error)
        raise ConfigError(
            f"--host {host} --port {port}: expected a free port, found that {reason.lower()}"
        ) from None
    return listener

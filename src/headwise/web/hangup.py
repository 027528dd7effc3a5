"""`SIGHUP`: the signal by which a service manager tells a server to load its files anew."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def ignore_hangup() -> None:
    """Ignore the signal until a server handles it, except in a terminal, whose end it means."""
    if hasattr(signal, "SIGHUP") and not _on_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def at_hangup(act: Callable[[], None]) -> Callable[[], None]:
    """Return what is to be done at the signal: `act`, or SIGTERM where the terminal of this process was closed."""
    started_on_terminal = _on_terminal()

    def handle() -> None:
        if started_on_terminal and not _on_terminal():
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            act()

    return handle


@contextmanager
def on_hangup(act: Callable[[], None]) -> Iterator[None]:
    """Context manager that does `at_hangup` in the event loop, where there is that signal.

    In a thread that isn't the main one, the signal keeps its meaning.
    """
    loop = asyncio.get_running_loop()
    possible = hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread()
    if possible:
        loop.add_signal_handler(signal.SIGHUP, at_hangup(act))
    try:
        yield
    finally:
        if possible:
            loop.remove_signal_handler(signal.SIGHUP)


def _on_terminal() -> bool:
    """Whether standard input is a terminal that is open."""
    with suppress(OSError):
        return os.isatty(0)
    return False

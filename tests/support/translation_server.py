"""Runs with languages, and a real server that translates with them for clients."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from headwise.config import Config
from headwise.page.application import Page
from headwise.page.runs import PageRun
from headwise.serve.production import Production
from headwise.serve.translation.limits import ServiceLimits
from serve_sockets import serving
from translator_run import make_run


def make_pair(folder: Path, source: str, target: str, **options: Any) -> Path:
    """Write a run with random weights for two languages, named after them."""
    run = make_run(folder / f"{source}-{target}", **options)
    config = Config.load(run / "config.yaml")
    config.data.source_language, config.data.target_language = source, target
    (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return run


def production_of(
    runs: list[Path],
    limits: ServiceLimits | None = None,
    *,
    say: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> tuple[Any, Production]:
    """Return the application that serves some runs, and its service."""
    opened = PageRun.open_all(runs, "cpu")
    production = Production(opened, limits=limits, say=say, **options)
    return production.app(Page(opened)), production


@contextmanager
def translating(runs: list[Path], limits: ServiceLimits | None = None, **options: Any) -> Iterator[str]:
    """Serve runs on a port of the loopback interface; yield the address."""
    app, _ = production_of(runs, limits, **options)
    with serving(app) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def deepl_client(address: str, key: str) -> Iterator[Any]:
    """DeepL's client, which asks for the state of a document twenty times a second instead of every five seconds."""
    import deepl

    often = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.05))
    with patch.object(deepl.translator, "time", often):
        client = deepl.DeepLClient(key, server_url=address, send_platform_info=False)
        yield client
        client.close()


def events_of(answer: str) -> list[tuple[str, Any]]:
    """Return the kinds of events of a stream, and what they hold."""
    events = [event.split("\n") for event in answer.strip().split("\n\n")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in events]

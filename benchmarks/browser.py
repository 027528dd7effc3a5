"""What the benchmarks of the page share: the page's server in this process, and Chromium."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwise.errors import ConfigError
from headwise.page.application import page_app
from headwise.page.runs import PageRun
from headwise.web.server import listen, server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@contextmanager
def served(runs: Mapping[str, PageRun]) -> Iterator[str]:
    """Serve the page of runs from a thread of this process while the block runs; yields its address."""
    listener = listen("127.0.0.1", 0)
    web_server = server(page_app(runs))
    threading.Thread(target=web_server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not web_server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    web_server.should_exit = True


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open a headless Chromium while the block runs; raises `ConfigError` where there is none."""
    path = next((found for name in CHROMIUMS if (found := shutil.which(name))), None)
    if path is None:
        raise ConfigError(f"Chromium: expected {' or '.join(CHROMIUMS)}, found none (apt install {CHROMIUMS[0]})")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()

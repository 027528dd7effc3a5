"""Fixtures of the browser tests: a small model, behind a real server and as static files, and a real browser."""

from __future__ import annotations

import asyncio
import functools
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs starlette: pip install 'headwise[serve]'")
pytest.importorskip("playwright", reason="the browser tests need playwright: pip install 'headwise[dev]'")

import numpy as np
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from headwise.analysis.heads.measuring import Annotated
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from headwise.interop.runs import open_trained
from headwise.page.application import page_app
from headwise.page.evaluation_pairs import EvaluationPairs
from headwise.page.runs import PageRun
from headwise.page.static_page import write_page
from headwise.web.server import listen, server
from language_model_run import make_language_model_run, make_masked_model_run
from translator_run import ENGLISH, GERMAN, make_run

# The first has no windows, which take most of the time of a test.
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
expect.set_options(timeout=60_000)  # a busy machine is slow, which isn't a failure

TEXT = "A man rides a brown horse."


# Of single panels and of single kinds of models, which `make test-slow` runs.
PANELS = {
    f"test_{name}" for name in ("patches", "other_models", "one_stack_boxes", "switched_off", "words", "recurrence")
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, those of single panels as slow, and skip them if there is no browser."""
    missing = pytest.mark.skip(reason="there is no Chromium: apt install chromium-headless-shell")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            if item.path.stem in PANELS:
                item.add_marker("slow")
            if CHROMIUM is None:
                item.add_marker(missing)


@dataclass
class Site:
    """A page at an address."""

    address: str


@dataclass
class Served:
    """A server in a thread, which can be stopped and started again at the same address."""

    runs: list[Path]
    port: int = 0
    corpus: EvaluationPairs | None = None
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        listener = listen("127.0.0.1", self.port)
        self.port = listener.getsockname()[1]
        app = page_app(PageRun.open_all(self.runs, "cpu"), self.corpus)
        self._server = server(app, log_level="error")
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._thread.join()


@dataclass
class Visit:
    """An open page, and the errors and foreign requests that occurred on it."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    def open(self, fragment: str = f"text={TEXT}") -> Page:
        self.page.goto(f"{self.address}#{fragment}")
        self.settled()
        return self.page

    def settled(self) -> None:
        """Wait until all panels have loaded."""
        # Longer than the page's debouncing, by a timer of the page itself, whose timers end in their order.
        self.page.evaluate("new Promise((done) => setTimeout(done, 180))")
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0)

    def table(self, panel: str) -> list[list[str]]:
        """Return the rows of the table of a panel's chart; the first row is the header."""
        toggle = self.page.locator(f"#{panel} .tools button", has_text="Table")
        if toggle.get_attribute("aria-pressed") == "false":
            toggle.click()
        rows = self.page.locator(f"#{panel} .twin tr").all()
        return [row.locator("th, td").all_inner_texts() for row in rows]

    def chart(self, panel: str) -> None:
        """Show a panel's chart again, in place of its table."""
        self.page.locator(f"#{panel} .tools button", has_text="Table").click()

    def matrix(self, panel: str) -> np.ndarray:
        """Return the numbers of a table, without its header and first column."""
        return np.array([[number(cell) for cell in row[1:]] for row in self.table(panel)[1:]])

    def vectors(self, fragment: str) -> dict[str, np.ndarray]:
        """Open a step of a box; return its vectors by their labels, from the table."""
        self.open(fragment)
        head, *rows = self.table("inside")
        columns = zip(*[row[1:] for row in rows], strict=True)
        return {
            label: np.array([number(cell) for cell in column if cell])
            for label, column in zip(head[1:], columns, strict=True)
        }

    def facts(self) -> dict[str, float]:
        """Return the facts of a step of a box, which are beside its chart."""
        self.chart("inside")
        names, values = self.page.locator("#inside dt"), self.page.locator("#inside dd data")
        return {
            name: float(value.get_attribute("value") or "nan")
            for name, value in zip(names.all_text_contents(), values.all(), strict=True)
        }

    def effect(self) -> list[str]:
        """Return the cells of the first row of the result of interventions."""
        row = self.page.locator("#interventions .result tbody tr").first
        return row.locator("th, td").all_inner_texts()

    def panels(self) -> list[str]:
        """Return the names of the panels that are shown."""
        return self.page.locator(".panel:visible").evaluate_all("all => all.map((one) => one.id)")

    def axe(self, *left_out: str) -> str:
        """Return what axe finds by all its rules but those left out, one line each."""
        self.settled()  # an answer that is being replaced is faint
        rules = {rule: {"enabled": False} for rule in left_out}
        violations = Axe().run(self.page, options={"rules": rules}).response["violations"]
        return "\n".join(f"{v['id']}: {n['html'][:160]}" for v in violations for n in v["nodes"])

    def refused(self) -> None:
        """Expect that a request to the server failed, if there is one, and drop the browser's messages about it."""
        kept = [line for line in self.complaints if not line.startswith("Failed to load resource")]
        without_server = self.page.locator("meta[name=headwise-run]").count() == 1
        assert without_server or len(kept) < len(self.complaints)
        self.complaints[:] = kept

    def state(self) -> dict[str, Any]:
        # The page updates its fragment by a timer of 60 ms; a longer timer in the page ends after it.
        read = "done([...new URLSearchParams(location.hash.slice(1))])"
        return dict(self.page.evaluate(f"new Promise((done) => setTimeout(() => {read}, 100))"))


def number(text: str) -> float:
    """Parse a number as the page formats it."""
    return float(text.replace("−", "-").replace("+", "").removesuffix(" %"))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "small", seed=3)


@pytest.fixture(scope="session")
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


@pytest.fixture(scope="session")
def tracer(translator: Translator) -> TranslationTracer:
    return TranslationTracer(translator)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of models of one text."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "writer": make_language_model_run(folder / "writer"),
        "masked": make_masked_model_run(folder / "masked"),
    }


@pytest.fixture(scope="session", params=["server", "static"])
def served(
    request: pytest.FixtureRequest, run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site | Served]:
    """The page with a server, and without one; tests of a request, or of looks that don't differ, are `SERVER_ONLY`."""
    if request.param == "server":
        with serving(run, corpus=six_sentences()) as served:
            yield served
    else:
        with static_files(run, tmp_path_factory.mktemp("site"), six_sentences()) as site:
            yield site


SERVER_ONLY = pytest.mark.parametrize("served", ["server"], indirect=True)
# Where tests/unit/page/test_static_page.py compares all that the page shows.
MOSTLY_SERVER = pytest.mark.parametrize(
    "served", ["server", pytest.param("static", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """One browser for all tests of this process, and the event loop that Playwright controls it by."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def browser(chromium: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser, whose event loop counts as running only during the test: `asyncio.run` fails beside one."""
    browser, loop = chromium
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture
def visit(browser: Browser, served: Site | Served) -> Iterator[Visit]:
    with visiting(browser, served) as visit:
        yield visit


def six_sentences(gold: Sequence[frozenset[tuple[int, int]]] | None = None) -> EvaluationPairs:
    english, german = ([*map(Annotated.of, side)] for side in (ENGLISH, GERMAN))
    return EvaluationPairs("six sentences", english, german, gold)


@contextmanager
def serving(*runs: Path, corpus: EvaluationPairs | None = None) -> Iterator[Served]:
    """Serve runs inside the block."""
    served = Served([*runs], corpus=corpus)
    served.start()
    try:
        yield served
    finally:
        served.stop()


@contextmanager
def static_files(run: Path, folder: Path, corpus: EvaluationPairs | None = None) -> Iterator[Site]:
    """Serve an exported page as files, under a path, inside the block."""
    page = folder / "class" / "page"
    page.mkdir(parents=True)
    trained = open_trained(run)
    write_page(trained, PageRun(run.name, run, trained.config, "cpu"), page, corpus)
    files = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietFiles, directory=str(folder)))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    try:
        yield Site(f"http://127.0.0.1:{files.server_port}/class/page/")
    finally:
        files.shutdown()
        files.server_close()


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def visiting(browser: Browser, served: Site | Served, **options: Any) -> Iterator[Visit]:
    """Open a fresh page; at the end check that it sent no foreign requests and logged no errors or warnings.

    It moves nothing unless `reduced_motion` says so: painting what moves would take most of a test's time.
    """
    looks = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    context = browser.new_context(**{**looks, **options})
    page = context.new_page()
    page.set_default_timeout(15_000)
    visit = Visit(page, served.address)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.complaints.append(message.text)

    def on_request(request: Request) -> None:
        if not request.url.startswith(served.address):
            visit.complaints.append(request.url)

    page.on("console", on_console)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    page.on("request", on_request)
    try:
        yield visit
    finally:
        context.close()
    assert visit.complaints == []

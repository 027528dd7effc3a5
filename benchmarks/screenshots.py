"""Screenshots of the page: `python -m benchmarks screenshots RUN [-o DIR]`; check them after every change of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import expect

from benchmarks import command_line
from benchmarks.browser import chromium, served
from headwise.page.runs import PageRun

# Name: width, color scheme, state, and whether the screenshot has the whole page or only its first screen.
VIEWS: dict[str, tuple[int, Literal["light", "dark"], dict[str, str], bool]] = {
    "light": (1280, "light", {"stage": "5", "query": "2"}, True),
    "dark": (1280, "dark", {"stage": "5", "query": "2", "word": "t2", "changes": "silence:cross.1.1"}, True),
    "decoder": (1280, "light", {"part": "decoder", "layer": "1", "stage": "4", "query": "3"}, True),
    "phone": (390, "light", {"stage": "6", "word": "t1"}, True),
    "zoomed": (320, "light", {"stage": "3", "changes": "silence:cross.1.1"}, True),
}


def main(arguments: Sequence[str]) -> None:
    parser = command_line("screenshots", __doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--text", help="the sentence; without, the run's first example")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    text = {} if options.text is None else {"text": options.text}
    with served(PageRun.open_all([options.run])) as address, chromium() as browser:
        for name, (width, scheme, state, whole) in VIEWS.items():
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(address + "#" + urlencode({**text, **state}))
            expect(page.locator(".head").first).to_be_visible(timeout=30_000)
            measured = page.locator("#evidence [role=status]:visible")  # none when the heads have been measured
            expect(measured).to_have_count(0, timeout=120_000)
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            page.screenshot(path=options.out / f"{name}.png", full_page=whole)
            page.close()
            print(options.out / f"{name}.png")

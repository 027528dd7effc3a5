"""`headwise learn`: the way through the paper, in the browser, beside a live model."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from headwise.cli.arguments import Device, Imports, Port, named
from headwise.shipped.runs import general_runs


def command(
    run: Annotated[Path, Argument(callback=named, help="A translation run, or demo: the model in the package.")] = Path(
        "demo"
    ),
    port: Port = 8080,
    browser: Annotated[bool, Option(help="Open the chapters in the browser.")] = True,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Open the chapters in the browser: the paper from the idea to a running model, beside that model.

    The links of the chapters open the model's page, where every head can be seen at work and silenced. For sentences of
    your own, the page has the general models, too, where there are any in models/.

    Example: headwise learn

    Example: headwise learn runs/de --port 9000 --no-browser
    """
    from headwise.page.application import page_app
    from headwise.page.runs import PageRun
    from headwise.web.server import listening, serve

    def say(address: str) -> None:
        chapters = f"{address}learn/"
        typer.echo(f"The chapters are at {chapters}, the live model at {address}  (Ctrl-C ends it)")
        if browser and _has_screen():
            webbrowser.open(chapters)

    runs = PageRun.open_all([run, *general_runs()], device)  # the first is the one that the chapters' links open
    with listening("127.0.0.1", port, [], say) as (listener, hosts):
        serve(page_app(runs, hosts=hosts), listener)


def _has_screen() -> bool:
    """Whether a browser has a window to open in; without one, a browser for terminals would take this terminal."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in names)

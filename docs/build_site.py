"""Build the documentation as a site: `make docs`; with a port as argument, serve it: `make docs-serve`.

The pages are the Markdown files of docs, README and CHANGELOG, and reference pages made from the code. The site needs
no network: search runs in the browser. A page that loads something from elsewhere is an error, and so is a link that
leads nowhere. With the variable DEMO, a run, the site has the run's model, computed in the browser.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import site_reference

from headwise.interop.runs import export_run
from headwise.learn.chapters import PAGES, chapters
from headwise.serve.static_page import Exporter

ROOT = Path(__file__).parents[1]
SOURCE, SITE = ROOT / "build" / "docs-source", ROOT / "build" / "site"
MODULES = {
    "The package": ["headwise"],
    "Translation": ["headwise.decoding.translator", "headwise.decoding.options", "headwise.decoding.outputs"],
    "Analysis": ["headwise.analysis.trace", "headwise.analysis.tracer", "headwise.analysis.interventions"],
    "Models": ["headwise.models.transformer", "headwise.models.base", "headwise.nn.multihead"],
    "Learning": ["headwise.learn.from_scratch", "headwise.learn.runs"],
}
CONTENTS = {
    "Learn": ["learn/README", *(f"learn/{file.stem}" for file in chapters(PAGES)), "learn/mistakes"],
    "How-to": ["recipes", "training", "scaling", "adapting", "distillation", "back-translation", "data", "tasks",
               "decoding", "evaluation", "serve", "page", "analysis", "heads", "interop", "speed", "attention",
               "extend", "security"],
    "Reference": ["reference/python", "reference/command-line", "reference/configuration", "reference/from-scratch"],
    "Reproduction": ["reproduction", "parameters", "benchmarks"],
    "Decisions": ["architecture", "dependencies", "changelog"],
}  # fmt: skip
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"https?:|<link[^>]*rel=\"stylesheet\"[^>]*href=\"https?:|@import",
    re.I,
)


def pages() -> None:
    """Write the pages of the site to `SOURCE`."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(
        ROOT / "docs", SOURCE, ignore=shutil.ignore_patterns("*.py", "__pycache__", "reproduction.html")
    )
    shutil.copy(ROOT / "docs" / "conf.py", SOURCE)
    shutil.copytree(PAGES, SOURCE / "learn")
    for name, file in {
        "changelog": "CHANGELOG.md",
        "benchmarks": "benchmarks/README.md",
        "index": "README.md",
    }.items():
        text = (ROOT / file).read_text("utf-8").replace("](../docs/", "](").replace("](docs/", "](")
        text = text.replace("](src/headwise/learn/pages/", "](learn/")
        (SOURCE / f"{name}.md").write_text(text, "utf-8")
    reference = SOURCE / "reference"
    reference.mkdir()
    (reference / "configuration.md").write_text(site_reference.configuration(), "utf-8")
    (reference / "command-line.md").write_text(site_reference.command_line(), "utf-8")
    (reference / "python.md").write_text(_python_page(), "utf-8")
    scratch = (ROOT / "src/headwise/learn/from_scratch.py").read_text("utf-8")
    (reference / "from-scratch.md").write_text(f"# from_scratch.py\n\n```python\n{scratch}```\n", "utf-8")
    for page in SOURCE.rglob("*.md"):
        page.write_text(_links(page.read_text("utf-8"), page), "utf-8")
    index = SOURCE / "index.md"
    trees = (
        f"```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"
        for caption, names in CONTENTS.items()
    )
    index.write_text(index.read_text("utf-8") + "\n" + "\n".join(trees), "utf-8")


def live_page() -> None:
    """Write the page that embeds the model of a run."""
    frame = '<iframe src="demo/index.html" title="The model" style="width: 100%; height: 80vh; border: 0"></iframe>'
    alone = '<p><a href="demo/index.html">Open it alone</a></p>'
    (SOURCE / "live.md").write_text(
        "# A live model\n\nYour browser computes this model: see [how](page.md#the-page-without-a-server).\n\n"
        f"```{{raw}} html\n{frame}\n{alone}\n```\n",
        "utf-8",
    )
    index = SOURCE / "index.md"
    first = "\nlearn/README\n"
    text = index.read_text("utf-8")
    assert first in text
    index.write_text(text.replace(first, f"{first}live\n", 1), "utf-8")


def _python_page() -> str:
    lines = ["# Python", "", "Made from the docstrings."]
    for title, modules in MODULES.items():
        lines += ["", f"## {title}"]
        for module in modules:
            lines += ["", f"### {module}", "", "```{eval-rst}", f".. automodule:: {module}", "```"]
    return "\n".join([*lines, ""])


def _links(text: str, page: Path) -> str:
    """Lead links to files that are no pages to the page that shows them, or show the path instead."""
    up = "../" * (len(page.relative_to(SOURCE).parts) - 1)
    text = re.sub(
        r"\]\(\.\./from_scratch\.py\)|\]\(src/headwise/learn/from_scratch\.py\)",
        f"]({up}reference/from-scratch.md)",
        text,
    )
    text = text.replace("](../../../../docs/", f"]({up}")
    text = re.sub(r"\]\((?:\.\./)?benchmarks/README\.md", f"]({up}benchmarks.md", text)
    text = re.sub(r"^```sh (?:run|recorded)$", "```sh", text, flags=re.MULTILINE)
    text = re.sub(r"^```(?:output|mermaid)$", "```text", text, flags=re.MULTILINE)

    def known(match: re.Match[str]) -> str:
        target = (page.parent / match[2].partition("#")[0]).resolve()
        return match[0] if target.exists() or match[2].startswith(("http", "#", "mailto:")) else f"{match[1]}"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", known, text)


def external_requests() -> list[str]:
    """Return the files of the site that would load something from elsewhere."""
    return [
        str(file.relative_to(SITE))
        for file in sorted(SITE.rglob("*.html"))
        if _LOADED.search(file.read_text("utf-8"))
    ]


def main() -> int:
    """Build the site; return 1 where a link leads nowhere or a page would load something from elsewhere."""
    pages()
    demo = os.environ.get("DEMO")
    if demo:
        live_page()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        str(ROOT / "build/doctrees"),
    ]
    done = subprocess.run([*command, str(SOURCE), str(SITE)], check=False)
    if demo and done.returncode == 0:
        export_run(Path(demo), Exporter(), "page", SITE / "demo")
    elsewhere = external_requests()
    for file in elsewhere:
        print(f"{file}: loads something from elsewhere", file=sys.stderr)
    if done.returncode or elsewhere:
        return 1
    print(f"{SITE / 'index.html'}: {sum(1 for _ in SITE.rglob('*.html'))} pages")
    if len(sys.argv) > 1:
        handler = functools.partial(SimpleHTTPRequestHandler, directory=str(SITE))
        print(f"http://127.0.0.1:{sys.argv[1]}/ (Ctrl-C ends it)")
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

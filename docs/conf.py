"""Sphinx's settings of the site: `make docs` builds it in build/site, with offline search and no request to elsewhere.

The source is docs itself, with a copy of the chapters in docs/learn. `source-read` brings in what stands elsewhere: a
line `<!-- file: PATH -->` is a file of the repository, `<!-- made: NAME -->` a page made from the code
(docs/reference.py). Links are rewritten to the pages of the site, or become text where there is none.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.errors import ExtensionError

DOCS = Path(__file__).parent
ROOT = DOCS.parent
CHAPTERS = ROOT / "src" / "headwise" / "learn" / "pages"
LIVE = ROOT / "build" / "live"
# Files that a page of the site shows.
SHOWN = {
    ROOT / "README.md": "index.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "benchmarks" / "README.md": "benchmarks.md",
    ROOT / "src" / "headwise" / "learn" / "from_scratch.py": "reference/from-scratch.md",
}
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"https?:|<link[^>]*rel=\"stylesheet\"[^>]*href=\"https?:|@import",
    re.I,
)

sys.path.insert(0, str(DOCS))  # for docs/reference.py
shutil.rmtree(DOCS / "learn", ignore_errors=True)
shutil.copytree(CHAPTERS, DOCS / "learn")

project = "Headwise"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["__pycache__"]
default_role = "literal"  # docstrings write `name`
napoleon_use_ivar = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"  # of blocks without a language
html_theme = "furo"
html_title = "Headwise"
html_show_sphinx = False
html_copy_source = False
# With `make docs DEMO=RUN`, the site has the run's model, computed in the browser, and a page that embeds it.
if LIVE.exists():
    html_extra_path = [str(LIVE)]
else:
    exclude_patterns.append("live.md")
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# A command with its explanation beside it is no shell script, and is shown without colors.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_default_options = {"members": True, "show-inheritance": True}


def read(app: Any, page: str, source: list[str]) -> None:
    """Put files and generated pages into the text of a page, and lead its links to pages of the site."""
    import reference

    path = DOCS / f"{page}.md"
    text = re.sub(r"^<!-- made: (\w+) -->$", lambda m: getattr(reference, m[1])(), source[0], flags=re.MULTILINE)

    def put(match: re.Match[str]) -> str:
        file = ROOT / match[1]
        text = file.read_text("utf-8")
        return linked(text, file, path) if file.suffix == ".md" else f"```python\n{text}```"

    text = text if LIVE.exists() else text.replace("\nlive\n", "\n")
    real = CHAPTERS / path.relative_to(DOCS / "learn") if page.startswith("learn/") else path
    source[0] = re.sub(r"^<!-- file: (\S+) -->$", put, linked(text, real, path), flags=re.MULTILINE)


def linked(text: str, file: Path, page: Path) -> str:
    """Return the text of a file with links as its page on the site has them; see the module."""

    def link(match: re.Match[str]) -> str:
        label, (address, _, anchor) = match[1], match[2].partition("#")
        if match[2].startswith(("http", "#", "mailto:")):
            return match[0]
        target = Path(os.path.normpath(file.parent / address))
        if target.is_relative_to(CHAPTERS):
            target = DOCS / "learn" / target.relative_to(CHAPTERS)
        target = DOCS / SHOWN.get(target, target)
        if not target.is_relative_to(DOCS) or not target.is_file():
            return label.strip("[]")
        return f"{label}({os.path.relpath(target, page.parent)}{'#' * bool(anchor)}{anchor})"

    return re.sub(r"(!?\[[^\]]*\])\(([^)\s]+)\)", link, text)


def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape what is Markdown in docstrings and has another meaning in reStructuredText."""
    lines[:] = [line.replace("|", r"\|").replace("*", r"\*") for line in lines]


def check(app: Any, error: Exception | None) -> None:
    """Fail where a page of the finished site would load something from elsewhere."""
    for file in sorted(Path(app.outdir).rglob("*.html")) if error is None else []:
        if LOADED.search(file.read_text("utf-8")):
            raise ExtensionError(f"{file}: loads something from elsewhere")


def setup(app: Any) -> None:
    """Connect the hooks; printed output and diagrams are shown as plain text."""
    app.connect("source-read", read)
    app.connect("build-finished", check)
    app.connect("autodoc-process-docstring", escape, priority=10)
    for name in ("output", "mermaid"):
        app.add_lexer(name, TextLexer)

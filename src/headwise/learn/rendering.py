"""The chapters as HTML pages for the server of the live page, by markdown-it-py, with code colored by Pygments.

    GET /learn/                    the list of chapters
    GET /learn/05-heads            a chapter
    GET /learn/from_scratch        the Transformer in NumPy
    GET /learn/pictures/NAME.svg   a picture

Links `live:FRAGMENT` open the live page in that state, in one tab for all of them. Files of the repository that the
package lacks aren't linked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from headwise.learn.chapters import PAGES, chapters

PICTURES = PAGES / "pictures"
_INDEX = "README"
_CODE = "from_scratch"
_TARGET = 'target="headwise"'  # the tab of the live page
_LEXERS = {"python": "python", "sh": "bash"}
# A symbol of a formula with its index and exponent, as in W_i^Q, √d_k, step^-0.5 and 10000^(2i/d_model).
_SYMBOL = re.compile(
    r"(?<!\w)(head|log|step|[A-Za-zα-ωΑ-Ω]|\d+)(?:_([A-Za-z0-9]+))?(?:\^(?:(-?[A-Za-z0-9.]*[A-Za-z0-9])|\(([^()]+)\)))?(?![\w^])"
)
_FRAME = """<!doctype html>
<html lang="en" dir="ltr">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>{title} – Headwise</title>
    <link rel="icon" href="../icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="../css/base.css" />
    <link rel="stylesheet" href="../css/chapters.css" />
  </head>
  <body class="chapter">
    <a class="skip" href="#main">Skip to the chapter</a>
    <header>
      <nav aria-label="Headwise"><a href="./">Chapters</a> <a href="../" {target}>Live model</a></nav>
    </header>
    <main id="main" tabindex="-1">
{body}
    </main>
    {steps}
  </body>
</html>
"""


def names() -> list[str]:
    """Return the names of all pages: the chapters in their order, then the others; "" is the list of chapters."""
    return [*(file.stem for file in chapters(PAGES)), "mistakes", _CODE, ""]


@cache
def page(name: str) -> str:
    """Return a page of `names` as HTML."""
    if name == _CODE:
        code = (PAGES.parent / f"{_CODE}.py").read_text("utf-8")
        body = f"<h1>{_CODE}.py</h1>\n{_highlighted(code, 'python', 'from_scratch.py')}"
    else:
        body = _parser().render((PAGES / f"{name or _INDEX}.md").read_text("utf-8"))
    return _FRAME.format(title=_title(body), target=_TARGET, body=body, steps=_steps(name))


def _title(body: str) -> str:
    """Return the text of a page's heading, escaped as there."""
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1])


def _steps(name: str) -> str:
    """Return the links from a chapter to the one before and the one after it."""
    order = [file.stem for file in chapters(PAGES)]
    if name not in order:
        return ""
    place = order.index(name)
    links = [
        f'<a rel="{relation}" href="{order[other]}">{word} {_title(page_heading(order[other]))}</a>'
        for other, relation, word in ((place - 1, "prev", "Before:"), (place + 1, "next", "Next:"))
        if 0 <= other < len(order)
    ]
    return f'<nav class="steps" aria-label="Chapters">{" ".join(links)}</nav>'


@cache
def page_heading(name: str) -> str:
    """Return the first line of a chapter, its heading, as HTML."""
    with open(PAGES / f"{name}.md", encoding="utf-8") as file:
        return _parser().render(file.readline())


@cache
def _parser() -> MarkdownIt:
    """Return the parser of CommonMark with tables and without HTML, whose links lead to pages of this server."""
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")
    parser.core.ruler.push("chapter_links", lambda state: _lead(state.tokens))
    return parser


def _lead(tokens: Sequence[Token]) -> None:
    """Lead the links of a page to where the server has what they mean, and number its headings."""
    number = 0
    for token in tokens:
        if token.type == "heading_open":
            number += 1
            token.attrSet("id", f"part-{number}")
        if token.type == "inline":
            token.children = list(_linked(token.children or []))


def _linked(tokens: Sequence[Token]) -> Iterator[Token]:
    kept = []  # for each open link, whether it is one
    for token in tokens:
        if token.type == "link_open":
            target = _target(str(token.attrGet("href")))
            kept.append(target is not None)
            if target is None:
                continue
            token.attrSet("href", target)
            if target.startswith("../"):
                token.attrSet("target", "headwise")
        elif token.type == "link_close" and not kept.pop():
            continue
        yield token


def _target(link: str) -> str | None:
    """Return where a link of a chapter leads on the server; None for what the package lacks."""
    if link.startswith("live:"):
        return f"../#{link.removeprefix('live:')}"
    if link.startswith(("https://", "#")):
        return link
    path, _, part = link.partition("#")
    name = Path(path).stem
    if path == f"../{_CODE}.py" or (Path(path).parent == Path() and name in {*names(), _INDEX}):
        return f"./{'' if name == _INDEX else name}{f'#{part}' if part else ''}"
    return None


class _Renderer(RendererHTML):
    """HTML whose code is colored, and whose tables and code can be scrolled by keyboard."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Render text, and symbols of formulas with raised and lowered parts."""
        return _formula(escape(tokens[idx].content, quote=False))

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Render a block of code, or of what the code above it printed."""
        language = tokens[idx].info.split()[0] if tokens[idx].info else ""
        return _highlighted(tokens[idx].content, language, "Output" if language == "output" else "Code")

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Begin a table in a box of its own."""
        return '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """End a table."""
        return "</table></div>"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Begin the heading of a column."""
        return '<th scope="col">'


def _formula(text: str) -> str:
    def symbol(match: re.Match[str]) -> str:
        base, index, exponent, inner = match.groups()
        above = exponent or (inner and _formula(inner))
        lowered, raised = (f"<{tag}>{part}</{tag}>" if part else "" for tag, part in (("sub", index), ("sup", above)))
        return f"{base}{lowered}{raised}"

    return _SYMBOL.sub(symbol, text)


def _highlighted(code: str, language: str, label: str) -> str:
    """Return a block of code with its colors; `output` and unknown languages have none."""
    lexer = _LEXERS.get(language)
    content = (
        escape(code, quote=False)
        if lexer is None
        else highlight(code, get_lexer_by_name(lexer), HtmlFormatter(nowrap=True))
    )
    kind = "output" if language == "output" else "code"
    return f'<pre class="{kind}" tabindex="0" role="group" aria-label="{label}"><code>{content}</code></pre>\n'

"""Which elements separate sentences, which stand inside them, and which aren't translated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headwise.characters import has_letters
from headwise.documents.tokens import PLACEHOLDER, Token

Syntax = Literal["html", "xml", "subtitles", "codes", "odf"]

_BLOCK_NAMES = """address article aside audio blockquote body br button canvas caption center col colgroup dd details
dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html
legend li main menu nav noscript ol optgroup option p picture pre search section select summary table tbody td template
textarea tfoot th thead title tr ul video"""
_NEVER_NAMES = "code iframe kbd math noembed noframes object samp script style svg template textarea var xmp"
BLOCKS = frozenset(_BLOCK_NAMES.split())
NEVER = frozenset(_NEVER_NAMES.split())
IGNORED = frozenset({"x", PLACEHOLDER})  # what DeepL's documents call a placeholder, and codes


@dataclass(frozen=True)
class TagRules:
    """How tags are handled, in the words of DeepL's protocol.

    Attributes:
        format: what the source is: HTML, XML, a cue of subtitles, a segment of a bilingual file with its codes, or
            OpenDocument's XML.
        ignore: names of elements whose content isn't translated, besides those that no document means to be.
        splitting: names of elements that always separate sentences.
        non_splitting: names of elements that never do.
        nested: names of elements inside sentences that have paragraphs of their own, such as a note.
        outline: XML: find the elements that separate sentences by where they occur; otherwise only `splitting` do.
    """

    format: Syntax = "html"
    ignore: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True
    nested: frozenset[str] = frozenset()

    def ignored(self, token: Token) -> bool:
        """Whether the content of an element isn't translated."""
        if token.name in self.ignore or token.name in IGNORED or token.attributes.get("translate") == "no":
            return True
        if self.format != "html":
            return False
        return token.name in NEVER or "notranslate" in token.attributes.get("class", "").split()

    def splitters(self, tokens: Sequence[Token]) -> frozenset[str]:
        """Return the names of the elements that separate sentences in a document."""
        if self.format == "html":
            found = BLOCKS
        elif self.format == "xml" and self.outline:
            found = _outline(tokens)
        else:
            found = frozenset()
        return (found - self.non_splitting) | self.splitting


def _outline(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the names of the elements that never stand beside text: those that do are parts of sentences."""
    names: set[str] = set()
    inline: set[str] = set()
    # The names of the children, and whether there is text beside them.
    stack: list[tuple[set[str], bool]] = [(set(), False)]

    def leave() -> None:
        children, beside = stack.pop()
        if beside:
            inline.update(children)

    for token in tokens:
        if token.kind == "text" and has_letters(token.raw):
            stack[-1] = stack[-1][0], True
        elif token.kind == "close":
            leave()
        elif token.name:
            names.add(token.name)
            stack[-1][0].add(token.name)
            if token.kind == "open":
                stack.append((set(), False))
    leave()
    return frozenset(names - inline)

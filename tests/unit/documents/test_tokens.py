"""Tokens of HTML and XML: together they are the source, and they are what independent parsers find."""

from __future__ import annotations

import re
import time
from itertools import product

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwise.documents.tokens import VOID, decoded, html_tokens, xml_tokens
from headwise.errors import DataError

PAGES = [
    "<!DOCTYPE html><p class=\"a\" x=1 y = 'b' disabled>Hi <b>you</b><br/>a < b &amp; c<!-- <i> --></p>",
    '<script>if (a<b) "</b>"</script><style>p > a {}</style><title>A <b></title><p>x',
    "<a href=x/>b</a><a b='<>'>c</a><A B=1 b=2>d</A><a/b>e</a>",
    "</>x</ y><!x><?php a ?><!-->z<!--->w<!-- a --!>b<!DOCTYPE>",
    "<a ===>x</a><a =b>y</a><a/ / b>z</a><a b =  c d>w</a><a b=>v</a>",
    "x < y <5 <",
    "<p>unfinished <a href='x",
]
START = html5lib.constants.tokenTypes["StartTag"]
_HTML = st.text(alphabet=st.sampled_from("<>/=!-'\" \nab&;x"), max_size=40)


def starts(source: str) -> list[tuple[str, dict[str, str]]]:
    """What html5lib's tokenizer finds."""
    tokens = html5lib._tokenizer.HTMLTokenizer(source, parser=None)
    return [(token["name"], dict(token["data"])) for token in tokens if token["type"] == START]


@pytest.mark.parametrize("source", PAGES)
def test_html_is_its_tokens(source: str) -> None:
    assert "".join(token.raw for token in html_tokens(source)) == source


@given(st.lists(st.sampled_from(["&", "&copy", "&not", "&in", "&eacute;", "&#65", "&amp", *";aD1."])).map("".join))
def test_each_character_has_its_own_source(source: str) -> None:
    text, sources = decoded(source)
    assert len(sources) == len(text)
    assert "".join(sources) == source
    for end in range(len(text) + 1):
        parsed = html5lib.parseFragment("".join(sources[:end]), namespaceHTMLElements=False)
        assert "".join(parsed.itertext()) == text[:end]


@given(_HTML)
def test_start_tags_are_those_of_html5lib(source: str) -> None:
    check_start_tags(source)


@pytest.mark.parametrize("length", range(5))
def test_all_short_attributes_are_those_of_html5lib(length: int) -> None:
    for characters in product("/=;' >&", repeat=length):
        check_start_tags(f"<b{''.join(characters)}>")


def check_start_tags(source: str) -> None:
    tokens = html_tokens(source)
    assert "".join(token.raw for token in tokens) == source
    ours = [
        (token.name, dict(token.attributes))
        for token in tokens
        if token.name and (token.kind == "open" or token.name in VOID)
    ]
    assert ours == starts(source)


@pytest.mark.parametrize("source", PAGES[:1] + PAGES[2:4])
def test_tags_are_those_of_html5lib(source: str) -> None:
    ours = [
        (token.name, dict(token.attributes))
        for token in html_tokens(source)
        if token.kind == "open" or token.name in VOID
    ]
    assert ours == starts(source)


def test_raw_text_has_no_tags() -> None:
    tokens = html_tokens(PAGES[1])
    assert [token.name for token in tokens if token.kind == "open"] == ["script", "style", "title", "p"]
    assert [token.raw for token in tokens if token.kind == "text"] == ["A <b>", "x"]


@pytest.mark.parametrize(
    "source",
    [
        *("<" * 50_000, "<a " * 20_000, "<!--" * 20_000, "<a b='" * 10_000, "<a b=c " * 10_000),
        *(
            "<script>" * 9_000,
            "</script" * 9_000,
            "&" * 50_000,
            "&a" * 25_000,
            "<a/" * 20_000,
            "<a b = " * 10_000,
            "<%" * 25_000,
        ),
    ],
)
def test_hostile_html_takes_linear_time(source: str) -> None:
    began = time.process_time()
    for token in html_tokens(source):
        decoded(token.raw)
    assert time.process_time() - began < 2


def test_a_reference_is_decoded_as_browsers_do() -> None:
    for raw in (
        "&amp;",
        "&eacute;&#233;&#xe9;&copy;x",
        "&notit; &ampx &unknown; & &#0; &NotEqualTilde;",
        "&",
    ):
        text, sources = decoded(raw)
        assert "".join(sources) == raw
        assert len(sources) == len(text)
        parsed = html5lib.parseFragment(f"<b>{raw}</b>", namespaceHTMLElements=False)
        assert text == "".join(parsed.itertext())


@pytest.mark.parametrize(
    "source",
    [
        'Press <i>Cont &amp; é</i> now <x/><y a="1" /><z></z> <![CDATA[a<b]]> <!-- c --><?pi x?>',
        '<?xml version="1.0" encoding="utf-16"?>\n<!DOCTYPE a >\n<a>x\r\ny</a>\n',
        '<!DOCTYPE html SYSTEM "x.dtd"><a>&foo;x&nbsp;y</a>',
        '<a:b xmlns:a="u" a:c="d">x</a:b><p:q>y</p:q>',
        "",
        "text alone",
    ],
)
def test_xml_is_its_tokens(source: str) -> None:
    tokens = xml_tokens(source)
    assert "".join(token.raw for token in tokens) == source
    if "p:q" in source or "&foo;" in source:
        return
    known = source if re.match(r"\s*<[?!]", source) else f"<r>{source}</r>"
    known = known.replace("utf-16", "utf-8")
    tree = etree.fromstring(known.encode(), etree.XMLParser(resolve_entities=False))
    names = [(element.tag, dict(element.attrib)) for element in tree.iter(etree.Element)]
    ours = [(t.name, dict(t.attributes)) for t in tokens if t.name and t.kind != "close"]
    assert ours == (names if source.startswith("<?") else names[1:])


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("<a>", "xml: expected well-formed XML, found at line 1, column 6: mismatched tag"),
        ("a & b", "xml: expected well-formed XML, found at line 1, column 4: not well-formed"),
        ("</r><r>", "xml: expected well-formed XML"),
        ("</r>x<r>", "xml: expected well-formed XML"),
        ("\0", "xml: expected well-formed XML"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "xml: expected a document without entity declarations"),
        ("<!DOCTYPE a [ <!ELEMENT a ANY> ]><a/>", "without entity declarations or others in its type"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "without entity declarations"),
        ('<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1/"> %x;]><a/>', "without entity declarations"),
        ("<a>" * 300 + "</a>" * 300, "xml: expected elements nested at most 256 deep"),
    ],
)
def test_bad_xml_is_refused(source: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        xml_tokens(source)

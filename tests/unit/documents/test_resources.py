"""Files of strings by name, against the parsers that others read them with."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

from document_translation import of_document, of_file
from headwise.documents.formats import read_file
from headwise.documents.protected import intact
from headwise.documents.sentence import ProtectedPiece, Sentence

PROPERTIES = """# a = b
! c
 title : Hello \\
    you, {0}
quote=It''s {0} o'clock
message = It''s {0}
braces = It''s {0} in '{'name'}' or '{it''s}' at five o''clock
other = 'Save as' isn't {0}
key = &Open "this" = \\u00e9\\ud83d\\ude00
url = http://a.example/
empty
"""
STRINGS = """/* "a" = "b"; */
"k \\"x\\"" = "Hello \\"%@\\",\\n %1$@ you";
bare_key="caf\u00e9";
// "c" = "d";
"""
FLUENT = """# A comment
-product = Firefox
hello = Hello, { $user }! It is
    nice of { -product } to see you.
    .title = One title
emails =
    { $count ->
        [one] One mail for { $user }
       *[other] { $count } mails
    }
mixed = You have { $count ->
        [0] no dog
       *[other] { $count } dogs
    } at home.
link = { "{" } <a>here</a>
"""
JSON = {
    "a": "Hello {name}",
    "b": {"@x": "no", "d": ["one \\ two", 1, None, "12"]},
    "@e": {"description": "no"},
    "f": "%(n)s & {{x}}\n",
}
CHROME = {"a": {"message": "Hello $NAME$", "description": "no", "placeholders": {"name": {"content": "$1"}}}}


def test_values_of_json_are_of_file() -> None:
    result = json.loads(of_file("a.json", json.dumps(JSON)))
    assert result == {
        **JSON,
        "a": "HELLO {name}",
        "b": {"@x": "no", "d": ["ONE \\ TWO", 1, None, "12"]},
        "f": "%(n)s & {{x}}\n",
    }
    assert json.loads(of_file("a.json", json.dumps(CHROME))) == {"a": {**CHROME["a"], "message": "HELLO $NAME$"}}
    assert of_file("a.json", '{"a":  "é \\/ b", "c":1e5 }') == '{"a":  "É / B", "c":1e5 }'.encode()
    names = {
        "a": "The user_id is missing",
        "b": "Set the api_key first",
        "c": {"message": "Log in", "button": "Go"},
    }
    assert json.loads(of_file("a.json", json.dumps(names))) == {
        "a": "THE USER_ID IS MISSING",
        "b": "SET THE API_KEY FIRST",
        "c": {"message": "LOG IN", "button": "GO"},
    }
    assert of_file("a.json", '{"c": {"message": "a", "button": "b"}}') == b'{"c": {"message": "A", "button": "B"}}'
    assert of_file("a.json", '["\\u00e9"]') == b'["\\u00c9"]'


def test_properties_are_what_other_programs_read() -> None:
    result = of_file("a.properties", PROPERTIES)
    assert result.isascii()
    assert result.decode().splitlines() == [
        "# a = b",
        "! c",
        " title : HELLO YOU, {0}",
        "quote=IT''S {0} O'CLOCK",
        "message = IT''S {0}",
        "braces = IT''S {0} IN '{'NAME'}' OR '{it''s}' AT FIVE O''CLOCK",
        "other = 'SAVE AS' ISN'T {0}",
        'key = &OPEN "THIS" = \\u00C9\\uD83D\\uDE00',
        *PROPERTIES.splitlines()[-2:],
    ]
    base = pytest.importorskip("translate.storage.properties", reason="needs pip install translate-toolkit")
    store = base.javafile()
    store.parse(result)
    values = {unit.name: unit.source for unit in store.units if unit.name}
    key = values["key"].encode("utf-16", "surrogatepass").decode("utf-16")
    assert (values["title"], key) == ("HELLO YOU, {0}", '&OPEN "THIS" = É😀')


def test_keys_and_lines_of_properties_end_as_in_java() -> None:
    source = "# one\ra = one\rb\u00a0c = two \\\r  words\r\n\r! two\rd\r"
    result = "# one\ra = ONE\rb\u00a0c = TWO WORDS\r\n\r! two\rd\r"
    assert of_file("a.properties", source).decode() == result


@pytest.mark.parametrize(
    "text",
    [
        "img/logo.png",
        "java.util.logging.ConsoleHandler",
        "../a/b",
        "/usr/share",
        "application/json",
        "#ff00aa",
        "MM/dd/yyyy",
        "dd.MM.yy",
        "h:mm A",
        "dddd, MMMM Do",
        "HH:mm:ss",
    ],
)
def test_a_value_that_no_person_reads_stays(text: str) -> None:
    for name, source in (
        ("a.json", '{{"a": "{}"}}'),
        ("a.strings", '"a" = "{}";'),
        ("a.properties", "a={}\n"),
    ):
        assert not read_file(name, source.format(text).encode()).texts


@pytest.mark.parametrize("text", ["Yes/No", "e.g.", "Add", "Loading...", "a.m.", "Mm.", "It is index.html"])
def test_a_value_that_a_person_reads_is_a_text(text: str) -> None:
    assert len(read_file("a.json", json.dumps([text]).encode()).texts) == 1


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("The <b>dog</b> runs", "THE <b>DOG</b> RUNS"),
        ("<a href='x'>The <I>dog</I></a>", "<a href='x'>THE <I>DOG</I></a>"),
        ("<0>The dog</0><br/>runs <1/> now", "<0>THE DOG</0><br/>RUNS <1/> NOW"),
        ("Press <code>x y</code> to <wait> or <b>go", "PRESS <code>x y</code> TO <wait> OR <b>GO"),
        (
            "{n, plural, one {<b># dog</b>} other {# <i>dogs</i>}}",
            "{n, plural, one {<b># DOG</b>} other {# <i>DOGS</i>}}",
        ),
        ("a < b and b > a", "A < B AND B > A"),
        ("%n files of %1 in %L2 at 100%", "%n FILES OF %1 IN %L2 AT 100%"),
        ("Hi %user_name%, 5% of %count%: %d%% or %ld%s", "HI %user_name%, 5% OF %count%: %d%% OR %ld%s"),
        (
            "%d file%s in %dm %.3fs, %1MB at %dx%d of %to%",
            "%d FILE%s IN %dM %.3fS, %1MB AT %dX%d OF %to%",
        ),
        ("%1个 of it", "%1个 OF IT"),
        (
            "Use :func:`open` or ``os.path``, not `npm run x`",
            "USE :func:`open` OR ``os.path``, NOT `npm run x`",
        ),
        (
            "See :ref:`the guide <x>` and `this (a) <https://a.b/c>`_, `it`_ [1]_ [#f]_ or |x|",
            "SEE :ref:`THE GUIDE <x>` AND `THIS (A) <https://a.b/c>`_, `it`_ [1]_ [#f]_ OR |x|",
        ),
        ("With -v and --dry-run, not x-y or a -b-c", "WITH -v AND --dry-run, NOT X-Y OR A -B-C"),
        ("Not `%s' in file `%s', ``a'' or ``b''", "NOT `%s' IN FILE `%s', ``A'' OR ``B''"),
        ("In %#@files@ and %1$#@days@", "IN %#@files@ AND %1$#@days@"),
        ("%,d points, or %1$,.2f kg", "%,d POINTS, OR %1$,.2f KG"),
        ("#{user.name} and ${total} or $total in all", "#{user.name} AND ${total} OR $total IN ALL"),
        ("@user has :count mails: see (:link) a:b", "@user HAS :count MAILS: SEE (:link) A:B"),
        (
            "%<count>d of %<total>.2f for !name, [[user.name]]!",
            "%<count>d OF %<total>.2f FOR !name, [[user.name]]!",
        ),
        ("The word Москва (of λόγος) is δ", "THE WORD Москва (OF λόγος) IS Δ"),
        ("where $x_1^2 = y$ or $n$ is $5 and more, 6 $", "WHERE $x_1^2 = y$ OR $n$ IS $5 AND MORE, 6 $"),
        (
            "See $t(menu.file) and @:menu.open or @.lower:(menu.x)",
            "SEE $t(menu.file) AND @:menu.open OR @.lower:(menu.x)",
        ),
        ("<b>&File</b> of x", "<b>&FILE</b> OF X"),
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.po", "a.strings", "a.properties"])
def test_tags_and_placeholders_of_strings_stay(name: str, text: str, result: str) -> None:
    written = {"a.json": '{{"a": "{}"}}', "a.strings": '"a" = "{}";', "a.properties": "a={}\n"}
    if name == "a.po":
        assert of_file(name, f'msgid "{text}"\nmsgstr ""\n').decode() == f'msgid "{text}"\nmsgstr "{result}"\n'
    else:
        assert of_file(name, written[name].format(text)).decode() == written[name].format(result)


@pytest.mark.parametrize(
    ("text", "seen", "result"),
    [
        ("Terms &amp; rules&nbsp;of it&#8217;s", "Terms & rules of it’s", "TERMS &amp; RULES OF IT’S"),
        ("a &lt; b in&hellip;", "a < b in…", "A &lt; B IN…"),
        ("the <b>dog &amp; cat</b>", "the dog & cat", "THE <b>DOG &amp; CAT</b>"),
        ("the &lt;b&gt;dog&lt;/b&gt;", "the dog", "THE &lt;b&gt;DOG&lt;/b&gt;"),
        ("a & b &brandName; &amp;", "a & b &brandName; &amp;", "A & B &BRANDNAME; &AMP;"),  # of a DTD
        (
            "see http://a.b/?c=d&copy=e &sect; f",
            "see http://a.b/?c=d&copy=e § f",
            "SEE http://a.b/?c=d&copy=e § F",
        ),
    ],
)
def test_references_of_strings_are_read_as_their_characters(text: str, seen: str, result: str) -> None:
    (parsed,) = read_file("a.json", json.dumps({"a": text}).encode()).texts
    read: list[str] = []
    assert of_document(parsed, lambda one: read.append(one) or one.upper()) == result
    assert read[0] == seen  # what loses a piece is read once more, without it


ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- Licensed <x> -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="app" translatable="false">My App</string>
    <string name="hello">Hello, %1$s! Don\\'t read \\"mail\\".\\nNew &amp; more</string>
    <string name="html">This is <b>bold</b> and <xliff:g id="n">Maps</xliff:g> of <a href="a">it</a></string>
    <string-array name="days"><item>Monday</item><item>@string/tue</item></string-array>
    <plurals name="files"><item quantity="one">%d file</item><item quantity="other">%d files</item></plurals>
    <string name="cd"><![CDATA[Click <a href="x">here</a> & now]]></string>
    <string name="quoted">"  It is quoted  "</string>
    <string name="none"/>
    <style name="T"><item name="x">some thing</item></style>
</resources>
"""


def test_strings_of_android_keep_what_its_build_wants() -> None:
    etree = pytest.importorskip("lxml.etree")
    through = functools.partial(of_file, "strings.xml", ANDROID)
    assert through(str).decode() == ANDROID
    special = etree.fromstring(through(lambda text: text.replace("mail", "'@<&")))
    assert special[1].text == r"""Hello, %1$s! Don\'t read \"\'@<&\".\nNew & more"""
    kept = re.compile(r"%\S+|Maps|.")
    changed = etree.fromstring(
        through(lambda text: kept.sub(lambda one: one[0].upper() if len(one[0]) == 1 else one[0], text))
    )
    assert ["".join(one.itertext()) for one in changed.iter("string", "item")] == [
        "My App",
        r"""HELLO, %1$s! DON\'T READ \"MAIL\".\nNEW & MORE""",
        "THIS IS BOLD AND Maps OF IT",
        "MONDAY",
        "@string/tue",
        "%d FILE",
        "%d FILES",
        'CLICK <a href="x">HERE</a> & NOW',
        '"  IT IS QUOTED  "',
        "",
        "some thing",
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"Name:\u0020", r"NAME:\u0020"),  # a build takes other white space off the ends
        (r"\u0020of it", r"\u0020OF IT"),
        ('" quoted "', '" QUOTED "'),
        (r"a bell \u0007 and\r more", r"A BELL \u0007 AND\u000d MORE"),
    ],
)
def test_escapes_of_androids_strings_stay_where_xml_or_a_build_needs_them(source: str, expected: str) -> None:
    etree = pytest.importorskip("lxml.etree")
    written = of_file("a.xml", f"<resources><string>{source}</string></resources>")
    assert etree.fromstring(written)[0].text == expected


def test_escaped_halves_of_a_character_are_one_in_androids_and_apples_strings() -> None:
    for name, form in (
        ("a.xml", "<resources><string>{}</string></resources>"),
        ("a.strings", '"a" = "{}";\n'),
    ):
        assert of_file(name, form.format(r"hi \uD83D\uDE00")).decode() == form.format("HI 😀")
        assert of_file(name, form.format(r"half \uD83D")).decode() == form.format("HALF \ufffd")


def test_lines_of_messages_stay() -> None:
    chrome = {"a": {"message": "One $x$.\n\n - two\n - three $x$", "placeholders": {"x": {"content": "$1"}}}}
    expected = {**chrome["a"], "message": "ONE $x$.\n\n - TWO\n - THREE $x$"}
    assert json.loads(of_file("a.json", json.dumps(chrome))) == {"a": expected}
    properties = "a={0} it''s '{'x'}'.\\n\\ \\n\\tTwo\\n\\  three\n"
    assert of_file("a.properties", properties).decode() == ("a={0} IT''S '{'X'}'.\\n \\n\\tTWO\\n  THREE\n")


def test_names_and_keys_of_fluent_are_no_text() -> None:
    kept = "-brand-name = Firefox\nopen =\n    .accesskey = O\n    .commandkey = o\n    .style = width: 5em\n"
    source = f"{kept}    .label = Open <b>{{ $x }} now</b>\n"
    assert of_file("a.ftl", source).decode() == f"{kept}    .label = OPEN <b>{{ $x }} NOW</b>\n"
    source = "-term = one\n    .gender = { $x ->\n       *[a] feminine\n    }\n    .case = no\nb = two\n    .c = d\n"
    assert of_file("a.ftl", source).decode() == source.replace("one", "ONE").replace("two", "TWO").replace("= d", "= D")


@pytest.mark.parametrize(("encoding", "result"), [("utf-8", "a = É\n".encode()), ("latin-1", b"a = \\u00C9\n")])
def test_properties_keep_their_encoding(encoding: str, result: bytes) -> None:
    assert of_file("a.properties", "a = é\n".encode(encoding)) == result


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_strings_of_apple_are_what_other_programs_read(encoding: str) -> None:
    result = of_file("a.strings", STRINGS.encode(encoding)).decode(encoding)
    expected = STRINGS.replace("Hello", "HELLO").replace("you", "YOU").replace("caf\u00e9", "CAF\u00c9")
    assert result == expected
    base = pytest.importorskip("translate.storage.properties", reason="needs pip install translate-toolkit")
    store = base.stringsutf8file()
    store.parse(result.encode())
    assert [unit.source for unit in store.units if unit.name] == ['HELLO "%@",\n %1$@ YOU', "CAFÉ"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_paragraphs_of_fluent_stay_apart(end: str) -> None:
    source = f"a ={end}    One {{ $x }}{end}    two{end}    {end}    Three.{end}{end}    four{end}b = Five{end}"
    expected = f"a ={end}    ONE {{ $x }} TWO{end}    {end}    THREE.{end}{end}    FOUR{end}b = FIVE{end}"
    assert of_file("a.ftl", source).decode() == expected


def test_a_placeable_of_fluent_may_have_empty_lines() -> None:
    source = 'a = See { FUN\n    (\n\n        "x",\n        y: 1\n    ) } now.\n\n    Then\n'
    assert of_file("a.ftl", source).decode() == source.replace("See", "SEE").replace("now", "NOW").replace(
        "Then", "THEN"
    )


def test_messages_of_fluent_are_what_other_programs_read() -> None:
    result = of_file("a.ftl", FLUENT).decode()
    base = pytest.importorskip("fluent.syntax", reason="needs pip install fluent.syntax")
    before, after = base.parse(FLUENT), base.parse(result)
    assert not any(isinstance(one, base.ast.Junk) for one in after.body)
    outside = functools.partial(re.sub, r"(?<!<)(?<!/)\b[a-z]+", lambda word: word[0].upper(), flags=re.IGNORECASE)
    assert texts(base.ast, before, outside) == texts(base.ast, after, str)
    assert "# A comment\n-product = FIREFOX\n" in result
    for kept in ("{ $user }", "{ -product }", "        [one] ", "       *[other] { $count } ", '{ "{" } <'):
        assert result.count(kept) == FLUENT.count(kept)


def texts(ast: Any, node: Any, change) -> list[str]:
    """The texts of a file, and what its placeables name, without white space that isn't shown."""
    if isinstance(node, ast.TextElement):
        return change(node.value).split()
    if isinstance(node, ast.Identifier | ast.StringLiteral):
        return [node.name if isinstance(node, ast.Identifier) else node.value]
    if isinstance(node, list):
        return [text for one in node for text in texts(ast, one, change)]
    if isinstance(node, ast.Comment) or not isinstance(node, ast.BaseNode):
        return []
    return [text for name in vars(node) if name != "span" for text in texts(ast, vars(node)[name], change)]


@pytest.mark.parametrize(
    ("translation", "whole"),
    [
        ("ein {0} b %s", True),
        ("ein {0} b", False),
        ("{0} {0} b %s", False),
        ("{0} {1} b %s", False),
        ("ein {0} <b>b %s", False),  # Android's XML would be malformed
        ("ein {0} < b %s", True),
    ],
)
def test_a_translation_with_other_placeholders_is_refused(translation: str, whole: bool) -> None:
    pieces = ProtectedPiece("{0}", "{0}", "placeholder"), ProtectedPiece("%s", "%s", "format")
    assert intact(Sentence(("a ", pieces[0], " b ", pieces[1]), strict=True), translation) is whole

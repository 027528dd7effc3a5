"""XLIFF and TMX as files to translate, against the library that other tools read them with."""

from __future__ import annotations

import html
from xml.etree import ElementTree

import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

import numpy as np

from document_translation import of_document, of_file
from headwise.documents.formats import read_file
from headwise.documents.readers.document_file import Confidence
from headwise.documents.readers.values import with_key
from headwise.errors import DataError

UNITS = """<trans-unit id="1">
  <source>&amp;Open the <g id="1">big file</g> of <x id="2"/> now</source>
</trans-unit>
<trans-unit id="2"><source>&amp;File &lt;b></source><target  state='new'/></trans-unit>
<trans-unit id="3"><source>Hello</source><target>Hallo</target></trans-unit>
<group translate="no"><trans-unit id="4"><source>Hello</source></trans-unit></group>
<trans-unit id="5" xml:space="preserve"><source>Hello {0}
 <bpt id="1">&lt;b class="x"></bpt>you<ept id="1">&lt;/b></ept> there.</source>
<alt-trans><target>y</target></alt-trans></trans-unit>
<trans-unit id="6"><source>One. Two.</source>
<seg-source><mrk mid="1" mtype="seg">One.</mrk> <mrk mid="2" mtype="seg">Two.</mrk></seg-source></trans-unit>
<trans-unit id="7"><source>Say <mrk mtype="protected">Headwise</mrk> twice</source></trans-unit>"""
XLIFF = f"""<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en" datatype="plaintext"><body>
{UNITS}
</body></file></xliff>
"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en">
 <file id="f1"><unit id="1"><segment id="s1">
   <source>Hello <pc id="1">World <ph id="2"/></pc>! <sc id="3"/>a b<ec startRef="3"/> c</source>
 </segment><ignorable><source> </source></ignorable></unit></file></xliff>"""
TMX = r"""<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="en-US"><seg>Hello <bpt i="1">\b</bpt>you<ept i="1"/>.</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Hello</seg></tuv><tuv xml:lang="de"><seg>Hallo</seg></tuv></tu>
<tu>
  <tuv xml:lang="fr"><seg>Salut</seg></tuv>
  <tuv xml:lang="en-US"><seg>Hello you</seg></tuv>
</tu></body></tmx>"""
ITS = "http://www.w3.org/2005/11/its"
STATE = ' state="needs-review-translation" state-qualifier="leveraged-mt"'


def translated(name: str, source: str, target: str = "de") -> str:
    return of_file(name, source, target=target).decode()


@pytest.mark.parametrize(
    "code",
    [
        '<x id="LINE_BREAK" ctype="lb"/>',  # as Angular writes it
        "<ph id='1'>&lt;br /></ph>",
        '<ph id="1" subType="xlf:lb"/>',
        '<ph type="fmt" disp="&lt;br/&gt;"/>',
    ],
)
def test_a_code_that_ends_a_line_separates_sentences(code: str) -> None:
    seen: list[str] = []

    def translate(text: str) -> str:
        seen.append(text)
        return text

    for name, source, word in (("a.xlf", XLIFF, "big"), ("a.xlf", XLIFF_2, "a b"), ("a.tmx", TMX, "you")):
        result = of_file(name, source.replace(word, f"line{code}next"), translate, target="de").decode()
        assert result.count(code) > source.count(code) + 1
    ends = [number for number, text in enumerate(seen) if text.endswith("line")]
    assert len(ends) > 2
    assert all(seen[number + 1].startswith("next") for number in ends)


@pytest.mark.parametrize(("source", "mark"), [("XLIFF", "target"), ("XLIFF_2", "mrk")])
def test_the_models_estimate_is_beside_the_translation(source: str, mark: str) -> None:
    content = globals()[source]
    file = read_file("a.xlf", content.encode(), "de")
    texts = [of_document(text, str.upper) for text in file.texts]
    assert file.write_rated is not None
    count = len(texts)
    rated = file.write_rated(texts, [Confidence(0.25, "chrF2")] * count).decode()
    marked = [each for each in ElementTree.fromstring(rated).iter() if f"{{{ITS}}}mtConfidence" in each.attrib]
    units = sum(text.text != "" for text in file.texts)  # the others are attributes
    assert len(marked) == units > 0
    for each in marked:
        assert each.tag.endswith(mark)
        assert each.get(f"{{{ITS}}}mtConfidence") == "0.250"
        assert each.get(f"{{{ITS}}}annotatorsRef") == "mt-confidence|chrF2"
    plain, found = (
        ["".join(each.itertext()) for each in ElementTree.fromstring(text).iter() if each.tag.endswith("target")]
        for text in (file.write(texts).decode(), rated)
    )
    assert found == plain
    assert file.write_rated(texts, [None] * count) == file.write(texts)
    assert not any(text.text for text in read_file("a.xlf", rated.encode(), "de").texts)


@pytest.mark.parametrize(
    ("content", "names"), [(XLIFF, ("source-language", "target-language")), (XLIFF_2, ("srcLang", "trgLang"))]
)
def test_xliff_between_other_languages_is_refused(content: str, names: tuple[str, str]) -> None:
    other = content.replace(f'{names[0]}="en"', f'{names[0]}="en-GB" {names[1]}="fr-CA"').encode()
    read_file("a.xlf", other, "fr", "en")
    read_file("a.xlf", other)
    with pytest.raises(DataError, match=f"file: expected {names[1]} de, found 'fr-CA'"):
        read_file("a.xlf", other, "de", "en")
    with pytest.raises(DataError, match=f"file: expected {names[0]} nl, found 'en-GB'"):
        read_file("a.xlf", other, "fr", "nl")


def targets(source: str) -> list[str]:
    return [part.partition("</target>")[0].partition(">")[2] for part in source.split("<target")[1:]]


def test_units_without_a_translation_get_one() -> None:
    result = translated("a.xlf", XLIFF)
    assert targets(result) == [
        '&amp;OPEN THE <g id="1">BIG FILE</g> OF <x id="2"/> NOW',
        "&amp;FILE &lt;b&gt;",
        "Hallo",
        'HELLO {0}\n <bpt id="1">&lt;b class="x"></bpt>YOU<ept id="1">&lt;/b></ept> THERE.',
        "y",
        '<mrk mid="1" mtype="seg">ONE.</mrk> <mrk mid="2" mtype="seg">TWO.</mrk>',
        'SAY <mrk mtype="protected">Headwise</mrk> TWICE',
    ]
    rest = result.replace(' target-language="de"', "").replace(f"\n  <target{STATE}>", f"<target{STATE}>")
    for text in targets(result):
        rest = rest.replace(f"<target{STATE}>{text}</target>", "")
    assert rest == XLIFF.replace("<target  state='new'/>", "")
    assert translated("a.xlf", result) == result


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xlf", XLIFF),
        (
            "a.xlf",
            XLIFF.replace(UNITS, '<trans-unit id="1" xml:space="preserve"><source>A.\nB.&#13;\n</source></trans-unit>'),
        ),
        ("a.tmx", TMX.replace("Hello you", "One.\n Two.\n\nThree.")),
    ],
)
def test_the_line_ends_of_a_file_are_no_part_of_a_translation(name: str, content: str) -> None:
    unix, windows = (
        ["".join(each.itertext()) for each in ElementTree.fromstring(translated(name, each)).iter()]
        for each in (content, content.replace("\n", "\r\n"))
    )
    assert windows == unix


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (  # as Angular extracts it
            '{VAR, select, male {<x id="B"/>male<x id="E"/>} other {other}}',
            '{VAR, select, male {<x id="B"/>MALE<x id="E"/>} other {OTHER}}',
        ),
        (
            'a <x id="1"/>{n, plural, one {b <x id="2"/> c} other {d}}<x id="3"/> {m, select, other {<x id="4"/>}}',
            'A <x id="1"/>{n, plural, one {B <x id="2"/> C} other {D}}<x id="3"/> {m, select, other {<x id="4"/>}}',
        ),
        ("<![CDATA[<p>Hello <b>you</b></p>]]>", "&lt;p&gt;HELLO &lt;b&gt;YOU&lt;/b&gt;&lt;/p&gt;"),
        (" at  both ends ", " AT BOTH ENDS "),
    ],
)
def test_units_as_other_tools_write_them(source: str, target: str) -> None:
    xliff = "<xliff version='1.2'><file><trans-unit id='1'><source>@</source>%</trans-unit></file></xliff>"
    xliff = xliff.replace("@", source)
    expected = xliff.replace("%", f"<target{STATE}>{target}</target>")
    expected = expected.replace("<file", '<file target-language="de"')
    assert translated("a.xlf", xliff.replace("%", "")) == expected
    segments = '<target><mrk mid="1" mtype="seg"/></target>'  # filled in before, for a person
    assert translated("a.xlf", xliff.replace("%", segments)) == expected


def test_a_mark_inside_a_segment_does_not_split_it() -> None:
    inner = 'Say <mrk mtype="protected">Headwise</mrk> or <mrk mtype="x-term">a word</mrk> now.'
    segments = f'<mrk mid="1" mtype="seg">{inner}</mrk> <mrk mid="2" mtype="seg">Or no.</mrk>'
    unit = f"<trans-unit><source>@</source><seg-source>{segments}</seg-source></trans-unit>"
    seen: list[str] = []
    content = f"<xliff version='1.2'>{unit}</xliff>"
    written = of_file("a.xlf", content, lambda one: seen.append(one) or one, target="de")
    assert seen == ["Say or a word now.", "Or no."]  # of what is protected, the model sees nothing
    assert targets(written.decode()) == [segments]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_stands_between_the_tags_of_an_empty_code(seed: int) -> None:
    source = 'Hello <x id="1"></x> you <bx id="2"></bx>big<ex id="2"></ex> <x id="3"></x>dog'
    unit = f"<trans-unit id='1'><source>{source}</source></trans-unit>"
    weights = np.random.default_rng(seed)
    content = f"<xliff version='1.2'>{unit}</xliff>"
    written = of_file("a.xlf", content, weigh=lambda *shape: weights.random(shape), target="de")
    root = ElementTree.fromstring(written)
    codes = list(next(root.iter("target")))
    assert {code.tag for code in codes} == {"x", "bx", "ex"}
    assert not any("".join(code.itertext()) for code in codes)


def test_what_is_written_is_what_other_programs_read() -> None:
    base = pytest.importorskip("translate.storage.xliff", reason="needs pip install translate-toolkit")
    store = base.xlifffile.parsestring(translated("a.xlf", XLIFF).encode())
    assert store.gettargetlanguage() == "de"
    found = {unit.getid().rpartition("\x04")[2]: unit for unit in store.units}
    assert found["2"].target == "&FILE <b>"
    assert found["2"].isfuzzy()
    assert found["3"].target == "Hallo"
    base = pytest.importorskip("translate.storage.tmx")
    one_language = TMX.replace('<tuv xml:lang="fr"><seg>Salut</seg></tuv>', "")
    memory = base.tmxfile.parsestring(translated("a.tmx", one_language).encode())
    assert {unit.source: unit.target for unit in memory.units}["Hello you"] == "HELLO YOU"


def test_segments_of_xliff_2_get_targets_and_their_language() -> None:
    result = translated("a.xliff", XLIFF_2)
    assert targets(result) == ['HELLO <pc id="1">WORLD <ph id="2"/></pc>! <sc id="3"/>A B<ec startRef="3"/> C']
    assert '<xliff trgLang="de" xmlns' in result
    assert "trgLang" not in translated("a.xliff", XLIFF_2, "")


def test_what_a_segment_of_xliff_2_protects_stays() -> None:
    source = 'Say <sm id="1" translate="no"/>Headwise or<em startRef="1"/> <mrk id="2" translate="no">so</mrk> now'
    result = translated("a.xlf", f"<xliff version='2.0'><segment><source>{source}</source></segment></xliff>")
    assert targets(result) == [source.replace("Say", "SAY").replace("now", "NOW")]


def test_a_memory_gets_the_language_that_it_lacks() -> None:
    result = translated("a.tmx", TMX)
    assert r'<tuv xml:lang="de"><seg>HELLO <bpt i="1">\b</bpt>YOU<ept i="1"/>.</seg></tuv></tu>' in result
    assert '</tuv>\n  <tuv xml:lang="de"><seg>HELLO YOU</seg></tuv>\n</tu>' in result
    assert result.count('xml:lang="de"') == 3
    assert translated("a.tmx", result) == result
    assert translated("a.tmx", result, "de-AT") == result


@pytest.mark.parametrize(("source", "results"), [("", ["SALUT", "NO"]), ("en", ["HELLO"]), ("EN-gb", ["HELLO"])])
def test_a_memory_is_translated_from_the_language_that_is_asked_for(source: str, results: list[str]) -> None:
    units = [{"fr": "Salut", "en-GB": "Hello"}, {"fr": "no"}]
    variants = [
        "".join(f"<tuv xml:lang='{code}'><seg>{text}</seg></tuv>" for code, text in unit.items()) for unit in units
    ]
    memory = f"<tmx version='1.4'><header srclang='fr'/><tu>{'</tu><tu>'.join(variants)}</tu></tmx>"
    root = ElementTree.fromstring(of_file("a.tmx", memory, target="de", source=source))
    language = "{http://www.w3.org/XML/1998/namespace}lang"
    assert ["".join(one.itertext()) for one in root.iter("tuv") if one.get(language) == "de"] == results


def test_utf_16_stays() -> None:
    content = XLIFF.encode("utf-16")
    written = of_file("a.xlf", content)
    assert written[:2] == content[:2]
    assert "BIG FILE" in written.decode("utf-16")


@pytest.mark.parametrize(
    ("text", "mark", "letter", "result"),
    [
        ("Datei öffnen", "&", "O", "&Datei öffnen"),
        ("Neu oder offen", "&", "o", "Neu &oder offen"),
        ("Speichern", "_", "C", "Spei_chern"),
        ("%s speichern", "&", "s", "%s &speichern"),
        ("文件...", "&", "f", "文件(&F)..."),
        ("A & B_C", "&", "b", "A && &B_C"),
        ("12", "_", "a", "12(_A)"),
    ],
)
def test_the_mark_of_a_key_is_kept(text: str, mark: str, letter: str, result: str) -> None:
    assert with_key(text, mark, letter) == result


@pytest.mark.parametrize("text", ["AT&T", "Q&A", "file_size", "a & b", "_em_phasis", "&nbsp;x", "http://a/?b&c"])
def test_what_is_no_mark_of_a_key_is_text(text: str) -> None:
    po = f'msgid "{text}"\nmsgstr ""\n'.encode()
    file = read_file("a.po", po)
    assert file.texts[0].text == html.unescape(text)


@pytest.mark.parametrize("text", ["&File", "E&xit", "Save _As", "E_xit"])
def test_a_message_is_translated_without_the_mark_of_its_key(text: str) -> None:
    file = read_file("a.po", f'msgid "{text}"\nmsgstr ""\n'.encode())
    assert file.texts[0].text == text.replace("&", "").replace("_", "")
    assert file.write([file.texts[0].text]).decode() == f'msgid "{text}"\nmsgstr "{text}"\n'


def test_other_xml_is_refused() -> None:
    with pytest.raises(DataError, match="file: expected an element xliff or tmx, found html"):
        read_file("a.xlf", b"<html/>")
    with pytest.raises(DataError, match="xml: expected well-formed XML"):
        read_file("a.tmx", b"<tmx>")


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ('&amp;Delete <x id="1"/>', '&amp;DELETE <x id="1"/>'),
        ('_Open <g id="1">files</g>', '_OPEN <g id="1">FILES</g>'),
        ('<g id="1">E&amp;xit &lt;</g> now', '<g id="1">E&amp;XIT &lt;</g> NOW'),
        ('<ph id="1">&lt;b></ph>&amp;b', '<ph id="1">&lt;b></ph>&amp;B'),
        ('Q &amp; A <x id="1"/>', 'Q &amp; A <x id="1"/>'),
    ],
)
def test_the_mark_of_a_key_is_kept_beside_codes(source: str, result: str) -> None:
    whole = f"<xliff version='1.2'><trans-unit><source>{source}</source></trans-unit></xliff>"
    assert targets(translated("a.xlf", whole)) == [result]

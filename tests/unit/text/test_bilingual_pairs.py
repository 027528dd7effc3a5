"""TMX and XLIFF as training text."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from headwise.errors import ConfigError, DataError
from headwise.text.reading.pairs import pair_files, read_pairs

TMX = r"""<?xml version="1.0" encoding="{}"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" segtype="sentence"/><body>
<tu><note>no</note><tuv xml:lang="de"><seg>Hallo <hi>Du</hi> &amp; ich</seg></tuv>
<tuv xml:lang="EN-US"><prop type="x">no</prop>
<seg>Hello <bpt i="1">{{\b <sub>no</sub></bpt>you<ept i="1">}}</ept> é</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Alone</seg></tuv></tu></body></tmx>"""
PAIRS = [("Hello you é", "Hallo Du & ich", 5), ("Alone", "", 6)]
XLIFF = """<x:xliff xmlns:x="x" version="1.2"><x:file><x:trans-unit>
<x:source>a <x:g id="1">b</x:g><x:ph>c</x:ph></x:source>
<x:target>d</x:target><x:alt-trans><x:target>no</x:target></x:alt-trans></x:trans-unit></x:file></x:xliff>"""
XLIFF_2 = """<xliff version="2.1"><unit><segment><source>a<cp hex="1"/></source><target>b</target></segment><ignorable>
<source>no</source></ignorable></unit></xliff>"""


def pairs(path: Path, *fields: str) -> list[tuple[str, str, int]]:
    return [(a.decode(), b.decode(), line) for a, b, line in read_pairs(pair_files(path, None), *fields)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1", "gb18030", "euc-jp"])
def test_a_memory_is_read(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.tmx"
    file.write_bytes(TMX.format(encoding).encode(encoding))
    assert pairs(file) == PAIRS
    assert pairs(file, "en", "de-DE") == PAIRS
    assert pairs(file, "en", "fr") == [("Hello you é", "", 5), ("Alone", "", 6)]
    assert pairs(file, "de", "en")[0] == ("Hallo Du & ich", "Hello you é", 5)


def test_letters_of_several_bytes_are_read_in_any_chunks(tmp_path: Path) -> None:
    text = "犬です。" * 40_000
    content = TMX.format("Shift_JIS").replace("é", text).replace("Alone", "caf&eacute;&nbsp;&foo;")
    (tmp_path / "a.tmx").write_bytes(content.encode("shift_jis"))
    assert [source for source, _, _ in pairs(tmp_path / "a.tmx")] == [f"Hello you {text}", "café\u00a0"]


def test_what_others_write_is_read(tmp_path: Path) -> None:
    base = pytest.importorskip("translate.storage.tmx", reason="needs pip install translate-toolkit")
    memory = base.tmxfile()
    for source, target in [("A & b <c>", "Ä\u2028d"), ("e", "f")]:
        memory.addtranslation(source, "en", target, "de")
    (tmp_path / "a.tmx").write_bytes(bytes(memory))
    assert [pair[:2] for pair in pairs(tmp_path / "a.tmx")] == [("A & b <c>", "Ä\u2028d"), ("e", "f")]


def test_xliff_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.xlf.gz").write_bytes(gzip.compress(XLIFF.encode()))
    (tmp_path / "a.xliff").write_text(XLIFF_2)
    assert pairs(tmp_path / "a.xlf.gz") == [("a b", "d", 3)]
    assert pairs(tmp_path / "a.xliff", "target", "source") == [("b", "a", 1)]
    with pytest.raises(ConfigError, match=r"a\.xliff: expected the sides source and target of XLIFF"):
        pairs(tmp_path / "a.xliff", "en", "de")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("<html/>", "line 1: expected an element tmx or xliff, found html"),
        ("<tmx>", "line 1: expected well-formed XML, found no element found"),
        ("<?xml version='1.0' encoding='foo'?><tmx/>", "line 1: expected .* encoding .*, found unknown encoding: foo"),
        ("<?xml version='1.0' encoding='big5'?><tmx>Ā</tmx>", "line 1: expected .*, found 'big5' codec can't decode"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><tmx/>", "expected a document without entity declarations"),
        ("<tmx>" + "<a>" * 300, "expected elements nested at most 256 deep"),
        (f"<tmx a='{'x' * 2**21}", "expected tags of at most 1,048,576 bytes"),
        (f"<tmx><tu><tuv><seg>{'x' * 2**21}", "expected segments of at most 1,048,576 characters"),
        (
            "<tmx><header srclang='en'/><tu><tuv xml:lang='en'><seg/></tuv><tuv xml:lang='de'><seg/></tuv>"
            "<tuv xml:lang='fr'><seg/></tuv></tu></tmx>",
            "line 1: expected two languages, found en, de, fr; name two of them in data.source_field",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "a.tmx").write_text(content)
    with pytest.raises(DataError, match=sentence):
        pairs(tmp_path / "a.tmx")

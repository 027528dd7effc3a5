"""Markup and protected pieces through the protocols, with their real clients."""

from __future__ import annotations

import io
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")
pytest.importorskip("deepl")

import deepl
import docx
import httpx
import polib
from lxml import etree

from headwise.engine.translator import Translator
from translation_server import events_of
from translator_run import ENGLISH


@pytest.fixture(scope="module")
def german(translator: Translator) -> list[str]:
    return [one.text for one in translator.translate(ENGLISH)]


def ours(address: str, **fields: Any) -> Any:
    answer = httpx.post(f"{address}/v1/translate", json={"source": "en", "target": "de", **fields}, timeout=60)
    return answer.json() if answer.status_code == 200 else answer


def test_tags_around_sentences_stay_bit_exact(client: Any, address: str, german: list[str]) -> None:
    page = f"<!DOCTYPE html><p class = 'a'><b>{ENGLISH[0]}</b>\n  {ENGLISH[1]}<br/>{ENGLISH[2]}"
    page += "<script>'Words.'</script>"
    expected = page
    for source, translation in zip(ENGLISH, german, strict=True):
        expected = expected.replace(source, translation.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    options = {"source_lang": "EN", "target_lang": "DE"}
    assert client.translate_text(page, tag_handling="html", **options).text == expected
    (one,) = ours(address, texts=[page], format="html")["translations"]
    assert one["text"] == expected
    assert one["warnings"] == []
    answer = httpx.post(f"{address}/translate", data={"q": page, "source": "en", "target": "de", "format": "html"})
    assert answer.json() == {"translatedText": expected}


def test_tags_inside_a_sentence_are_balanced(client: Any, address: str) -> None:
    source = "A <b>man <i>rides</i></b> a <a href='?a&amp;b'>brown horse</a> <img src='x'/> along "
    source = f"{source}<x>the</x> <c>beach</c>."
    settings: list[dict[str, Any]] = [
        {},
        {"ignore_tags": "c,d", "outline_detection": False},
        {"splitting_tags": ["a"], "non_splitting_tags": ["b"]},
    ]
    options: dict[str, Any] = {"source_lang": "EN", "tag_handling": "xml"}
    for target in ("DE", "FR"):  # French by two models
        for more in settings:
            text = client.translate_text(source, target_lang=target, **options, **more).text
            names = sorted(one.tag for one in etree.fromstring(f"<r>{text}</r>").iter())
            assert names == ["a", "b", "c", "i", "img", "r", "x"]
            assert "<x>the</x>" in text
            assert ("<c>beach</c>" in text) == ("ignore_tags" in more)


def test_pieces_arrive_or_are_reported(address: str, client: Any) -> None:
    pieces = ["https://example.org/a.b?c=1", "{name}", "%(count)d", "😀", "a.b@c.org"]
    source = f"A man {pieces[0]} rides {pieces[1]} a {pieces[2]} brown horse {pieces[3]} along {pieces[4]}."
    (one,) = ours(address, texts=[source])["translations"]
    assert all(one["text"].count(piece) == 1 for piece in pieces)
    possible = {f"the translation lacked {piece!r}; it was put where the alignment says" for piece in pieces}
    assert set(one["warnings"]) <= possible
    assert one["warnings"]
    assert all(piece in client.translate_text(source, source_lang="EN", target_lang="FR").text for piece in pieces)
    (free,) = ours(address, texts=[source], protect=False)["translations"]
    assert pieces[0] not in free["text"]
    metrics = httpx.get(f"{address}/metrics").text
    assert 'headwise_protected_pieces_total{outcome="repaired"} ' in metrics


def test_messages_are_translated_and_their_keywords_arent(address: str, german: list[str]) -> None:
    message = "{n, plural, one {A.} other {B.}}"
    source = message.replace("A.", ENGLISH[0]).replace("B.", ENGLISH[1])
    (one,) = ours(address, texts=[source])["translations"]
    assert one["text"] == message.replace("A.", german[0]).replace("B.", german[1])


def test_alternatives_have_their_tags(address: str) -> None:
    fields = {"q": "Two <b>dogs</b> are {x} playing.", "format": "html", "alternatives": 2}
    fields |= {"source": "en", "target": "de"}
    answer = httpx.post(f"{address}/translate", json=fields).json()
    assert len(answer["alternatives"]) == 2
    for text in [answer["translatedText"], *answer["alternatives"]]:
        assert text.count("<b>") == text.count("</b>") == text.count("{x}") == 1
        assert text.index("<b>") < text.index("</b>")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("html", f"<p><b>{ENGLISH[0]} {ENGLISH[1]}</b></p>\n<ul><li>A <i>dog</i> &amp; a cat.</li></ul>"),
        ("xml", f"<d><s a='1'>{ENGLISH[2]}</s>\n<s>Two <b>dogs</b>.</s></d>"),
        (
            "text",
            "{n, plural, one {A dog.} other {Two dogs. They sleep.}} {x, select, other {A cat.}} runs. {name}!",
        ),
    ],
)
def test_a_streamed_document_is_the_translated_one(address: str, form: str, text: str) -> None:
    fields = {"source": "en", "target": "de", "format": form}
    (whole,) = ours(address, texts=[text], format=form)["translations"]
    streamed = httpx.post(f"{address}/v1/translate/stream", json={"text": text, **fields}, timeout=60)
    *sentences, (kind, end) = events_of(streamed.text)
    assert (kind, end["text"]) == ("end", whole["text"])
    assert [data["number"] for _, data in sentences] == list(range(len(sentences)))
    position = 0  # every sentence is a part of the whole, tags and pieces included
    for _, data in sentences:
        position = whole["text"].index(data["text"], position) + len(data["text"])
    assert {warning for _, data in sentences for warning in data["warnings"]} == set(whole["warnings"])
    refused = httpx.post(f"{address}/v1/translate/stream", json={"text": "<a>", **fields, "format": "xml"})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"texts": ["<a>"], "format": "xml"}, "xml: expected well-formed XML, found at line 1"),
        (
            {"texts": ["<b>x " * 300], "format": "html"},
            "html: expected elements nested at most 256 deep, found more",
        ),
        (
            {"texts": ['<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'], "format": "xml"},
            "without entity declarations",
        ),
        ({"texts": ["a"], "format": "html", "prefixes": ["b"]}, "prefixes: expected none with format html"),
    ],
)
def test_hostile_documents_are_refused(address: str, fields: dict[str, Any], sentence: str) -> None:
    answer = ours(address, **fields)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def word_file() -> bytes:
    document = docx.Document()
    document.add_paragraph(ENGLISH[0])
    document.add_paragraph("Two ").add_run("dogs").bold = True
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_documents_through_deepls_client(client: Any, german: list[str]) -> None:
    def translated(name: str, content: bytes) -> bytes:
        out = io.BytesIO()
        client.translate_document(content, out, filename=name, source_lang="EN", target_lang="DE")
        return out.getvalue()

    page = f"<p class = a>{ENGLISH[0]}</p>\r\n<script>Words</script>"
    assert translated("a.html", page.encode()).decode() == page.replace(ENGLISH[0], german[0])
    cues = f"1\n00:00:01,000 --> 00:00:02,000\n{ENGLISH[1]}\n\n"
    assert translated("a.srt", cues.encode()).decode() == cues.replace(ENGLISH[1], german[1])
    catalogue = f'# C\nmsgid "{ENGLISH[2]}"\nmsgstr ""\n\nmsgid "B"\nmsgstr "C"\n'
    filled = polib.pofile(translated("a.po", catalogue.encode()).decode())
    assert [entry.msgstr for entry in filled] == [german[2], "C"]
    result = docx.Document(io.BytesIO(translated("a.docx", word_file())))
    assert result.paragraphs[0].text == german[0]
    assert any(run.bold for run in result.paragraphs[1].runs)
    with pytest.raises(deepl.DeepLException, match=r"expected a .docx file, found a damaged"):
        translated("a.docx", word_file()[:500])


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("a.strings", '// é\n"a" = "A man rides a horse.";', "utf-16"),
        ("a.properties", "# é\na = A man rides a horse.\n", "iso-8859-1"),
        ("a.properties", "# é\na = A man rides a horse.\n", "utf-8"),
    ],
)
def test_a_file_says_in_which_encoding_it_is(address: str, name: str, text: str, encoding: str) -> None:
    files = {"file": (name, text.encode(encoding))}
    sent = httpx.post(f"{address}/translate_file", files=files, data={"source": "en", "target": "de"})
    answer = httpx.get(sent.json()["translatedFileUrl"])
    assert answer.headers["content-type"].endswith(f"; charset={encoding}")
    assert answer.text.startswith(text[:4])


def test_a_document_through_libretranslates_protocol(address: str, german: list[str]) -> None:
    files = {"file": ("a.docx", word_file())}
    sent = httpx.post(f"{address}/translate_file", files=files, data={"source": "en", "target": "de"})
    answer = httpx.get(sent.json()["translatedFileUrl"])
    assert answer.headers["content-type"].startswith("application/vnd.openxmlformats")
    assert docx.Document(io.BytesIO(answer.content)).paragraphs[0].text == german[0]
    settings = httpx.get(f"{address}/frontend/settings").json()
    assert {".html", ".docx", ".srt", ".po"} <= set(settings["supportedFilesFormat"])

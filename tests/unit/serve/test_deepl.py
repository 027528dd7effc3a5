"""DeepL's protocol, with the official Python client."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")
pytest.importorskip("deepl")

import deepl
import docx
import httpx

from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.serve.protocols.deepl import MOST_TEXTS, QUOTA_EXCEEDED
from headwise.serve.protocols.keys import KeyStore
from translation_server import deepl_client, make_pair, translating
from translator_run import ENGLISH


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [make_pair(folder, "en", "de"), make_pair(folder, "de", "en", seed=1)]


@pytest.fixture(scope="module")
def address(runs: list[Path], keys: tuple[KeyStore, str, str]) -> Iterator[str]:
    with translating(runs, keys=keys[0]) as address:
        yield address


def test_its_client_translates_as_the_library(client: Any, translator: Translator) -> None:
    one, two = (translation.text for translation in translator.translate(ENGLISH[:2]))
    result = client.translate_text(ENGLISH[0], source_lang="EN", target_lang="DE")
    assert (result.text, result.detected_source_lang) == (one, "EN")
    assert result.billed_characters == len(ENGLISH[0])
    several = client.translate_text([f"{ENGLISH[0]}\n{ENGLISH[1]}", ENGLISH[1]], target_lang="DE")
    found = [(each.text, each.detected_source_lang) for each in several]
    assert found == [(f"{one}\n{two}", "EN"), (two, "EN")]


def test_a_text_isnt_split(client: Any, translator: Translator) -> None:
    both = f"{ENGLISH[1]} {ENGLISH[4]}"
    result = client.translate_text(both, source_lang="EN", target_lang="DE", split_sentences="0")
    assert result.text == translator.translate([both], split="long")[0].text


def test_languages_and_usage(client: Any) -> None:
    sources = [(one.code, one.name) for one in client.get_source_languages()]
    assert sources == [("DE", "German"), ("EN", "English")]
    assert [one.code for one in client.get_target_languages()] == ["DE", "EN-GB", "EN-US"]
    assert client.translate_text("Ein Hund.", source_lang="DE", target_lang="EN-US").text
    before = client.get_usage().character
    client.translate_text(ENGLISH[0], source_lang="EN", target_lang="DE")
    assert client.get_usage().character.count == before.count + len(ENGLISH[0])
    assert not client.get_usage().any_limit_reached


def test_a_document(client: Any, translator: Translator, tmp_path: Path) -> None:
    one, two = (translation.text for translation in translator.translate(ENGLISH[:2]))
    content = f"{ENGLISH[0]} {ENGLISH[1]}\r\n\r\n* {ENGLISH[1]}\r\n".encode()
    out = io.BytesIO()
    status = client.translate_document(content, out, filename="a.txt", target_lang="DE")
    assert out.getvalue() == f"{one} {two}\r\n\r\n* {two}\r\n".encode()
    assert status.done
    assert status.billed_characters == len(content)
    (tmp_path / "in.txt").write_text(ENGLISH[0], encoding="utf-8")
    client.translate_document_from_filepath(
        tmp_path / "in.txt", tmp_path / "out.txt", source_lang="EN", target_lang="DE"
    )
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == one
    with pytest.raises(deepl.DeepLException, match=r"expected a name that ends with .txt"):
        client.translate_document(b"a", io.BytesIO(), filename="a.pdf", target_lang="DE")


def test_a_document_names_its_language_as_its_format_has_it(client: Any) -> None:
    messages = b'msgid ""\nmsgstr ""\n"Language: \\n"\n\nmsgid "A dog."\nmsgstr ""\n'
    written = io.BytesIO()
    client.translate_document(messages, written, filename="a.po", source_lang="EN", target_lang="DE")
    assert b'"Language: de\\n"' in written.getvalue()


def test_a_document_that_fails_says_why_and_costs_nothing(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise DataError("a.txt: expected a file that can be written")

    monkeypatch.setattr("headwise.serve.translation.documents.write", fails)
    before = client.get_usage().character.count
    handle = client.translate_document_upload(ENGLISH[0].encode(), filename="a.txt", target_lang="DE")
    status = client.translate_document_wait_until_done(handle)
    assert (status.ok, status.error_message) == (False, "a.txt: expected a file that can be written")
    with pytest.raises(deepl.DeepLException, match="Bad request"):  # it reads no more of a file's answer
        client.translate_document_download(handle, io.BytesIO())
    assert client.get_usage().character.count == before


def test_a_document_with_a_picture_may_be_long(client: Any) -> None:
    document, out = docx.Document(), io.BytesIO()
    document.add_paragraph(ENGLISH[0])
    document.save(out)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("word/media/image1.png", bytes(range(256)) * 8_000)  # stored, 2 MB
    written = io.BytesIO()
    assert client.translate_document(out.getvalue(), written, filename="a.docx", target_lang="DE").done
    assert len(written.getvalue()) > 2_000_000


def test_a_form_as_in_its_documentation(address: str, keys: tuple[KeyStore, str, str], translator: Translator) -> None:
    answer = httpx.post(
        f"{address}/v2/translate",
        headers={"Authorization": f"DeepL-Auth-Key {keys[1]}"},
        data={"text": ENGLISH[:2], "target_lang": "DE", "source_lang": "EN"},
    )
    texts = [one["text"] for one in answer.json()["translations"]]
    assert texts == [translation.text for translation in translator.translate(ENGLISH[:2])]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tag_handling": "xml"}, "xml: expected well-formed XML, found at line 1, column 6: mismatched tag"),
        ({"tag_handling": "word"}, "tag_handling: input should be 'html' or 'xml'"),
        ({"glossary": "7"}, "glossary: this server keeps no glossaries"),
        ({"formality": "more"}, "formality: expected default, prefer_more or prefer_less, found more"),
        ({"target_lang": "JA"}, "target: expected one of de, en, found 'JA'"),
    ],
)
def test_what_isnt_done_is_refused_and_costs_nothing(client: Any, options: dict[str, Any], sentence: str) -> None:
    before = client.get_usage().character.count
    with pytest.raises(deepl.DeepLException, match=sentence):
        client.translate_text("<a>", **{"source_lang": "EN", "target_lang": "DE", **options})
    assert client.get_usage().character.count == before


def test_too_many_texts(client: Any) -> None:
    with pytest.raises(deepl.DeepLException, match="text: list should have at most 50 items"):
        client.translate_text(["a"] * (MOST_TEXTS + 1), source_lang="EN", target_lang="DE")


@pytest.mark.parametrize("key", ["wrong", "hw_" + "A" * 43, "x" * 10_000])
def test_a_wrong_key_never_gets_in(address: str, key: str) -> None:
    with deepl_client(address, key) as client:
        with pytest.raises(deepl.AuthorizationException):
            client.translate_text("a", target_lang="DE")
        with pytest.raises(deepl.AuthorizationException):
            client.get_usage()


def test_a_quota_is_kept(address: str, keys: tuple[KeyStore, str, str]) -> None:
    with deepl_client(address, keys[2]) as client:
        client.translate_text(ENGLISH[0], source_lang="EN", target_lang="DE")
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text(ENGLISH[1], source_lang="EN", target_lang="DE")
        usage = client.get_usage().character
    assert (usage.count, usage.limit) == (len(ENGLISH[0]), 60)
    assert QUOTA_EXCEEDED == deepl.DeepLClient._HTTP_STATUS_QUOTA_EXCEEDED

"""Glossaries of the server: kept ones by DeepL's official client, and those of a request."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")
pytest.importorskip("deepl")

import deepl
import httpx
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries

from headwise.engine.guards import repetition as guard
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.serve.protocols.keys import KeyStore
from headwise.serve.translation.glossaries import GlossaryStore, make_dictionary
from headwise.text.reading.glossary import Entry, Glossary
from translation_server import deepl_client, make_pair, translating
from translator_run import ENGLISH

TERMS = {"horse": "Katze", "beach": "Schnee", "New York": "Brunnens"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        make_pair(folder, "en", "de"),
        make_pair(folder, "de", "en", seed=1),
        make_pair(folder, "fr", "en", seed=2),
    ]


@pytest.fixture(scope="module")
def address(
    runs: list[Path], keys: tuple[KeyStore, str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    store = GlossaryStore(tmp_path_factory.mktemp("glossaries") / "glossaries.db")
    with translating(runs, keys=keys[0], glossaries=store) as address:
        yield address


@pytest.fixture
def bob(address: str, keys: tuple[KeyStore, str, str]) -> Iterator[Any]:
    with deepl_client(address, keys[2]) as client:
        yield client


Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(address: str, keys: tuple[KeyStore, str, str]) -> Ask:
    """Translate by our own protocol."""
    headers = {"Authorization": f"Bearer {keys[1]}"}
    return lambda **body: httpx.post(f"{address}/v1/translate", json=body, headers=headers, timeout=60)


def placed(runs: list[Path], text: str) -> str:
    glossary = Glossary(Entry(source, (target,)) for source, target in TERMS.items())
    return Translator.load(runs[0], device="cpu").translate([text], glossary=glossary)[0].text


def test_version_2_with_its_client(client: Any, runs: list[Path]) -> None:
    made = client.create_glossary("animals", "EN", "DE", TERMS)
    assert (made.name, made.ready, made.source_lang, made.target_lang) == ("animals", True, "EN", "DE")
    assert made.entry_count == 3
    assert made.glossary_id in [one.glossary_id for one in client.list_glossaries()]
    found = client.get_glossary(made.glossary_id)
    assert (found.glossary_id, found.creation_time) == (made.glossary_id, made.creation_time)
    assert client.get_glossary_entries(made) == TERMS
    result = client.translate_text(ENGLISH[0], source_lang="EN", target_lang="DE", glossary=made)
    assert result.text == placed(runs, ENGLISH[0])
    assert "Katze" in result.text
    assert "Schnee" in result.text
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert ("en", "de") in pairs
    client.delete_glossary(made)
    with pytest.raises(deepl.exceptions.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


def test_version_3_with_its_client(client: Any) -> None:
    made = client.create_multilingual_glossary("mine", [Entries("EN", "DE", TERMS), Entries("DE", "EN", {"a": "b"})])
    counts = {(one.source_lang, one.target_lang): one.entry_count for one in made.dictionaries}
    assert counts == {("EN", "DE"): 3, ("DE", "EN"): 1}
    found = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries[0]
    assert found.entries == "\n".join("\t".join(pair) for pair in TERMS.items()) or found.entries == TERMS
    merged = client.update_multilingual_glossary_dictionary(made, Entries("DE", "EN", {"a": "c", "d": "e"}))
    assert {one.entry_count for one in merged.dictionaries} == {2, 3}
    assert client.update_multilingual_glossary_name(made, "ours").name == "ours"
    replaced = client.replace_multilingual_glossary_dictionary(made, Entries("DE", "EN", {"x": "y"}))
    assert replaced.entry_count == 1
    client.delete_multilingual_glossary_dictionary(made, source_lang="DE", target_lang="EN")
    assert len(client.get_multilingual_glossary(made.glossary_id).dictionaries) == 1
    assert made.glossary_id in [one.glossary_id for one in client.list_multilingual_glossaries()]
    result = client.translate_text(ENGLISH[0], source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    assert "Katze" in result.text
    with pytest.raises(deepl.DeepLException, match="expected one for de-en, found one for en-de"):
        client.translate_text("Ein Hund.", source_lang="DE", target_lang="EN-US", glossary=made.glossary_id)
    client.delete_multilingual_glossary(made)
    assert client.list_multilingual_glossaries() == []


def test_a_key_sees_its_own_glossaries_only(client: Any, bob: Any) -> None:
    made = client.create_glossary("secret", "EN", "DE", TERMS)
    assert bob.list_glossaries() == []
    for use in (bob.get_glossary, bob.get_glossary_entries, bob.delete_glossary):
        with pytest.raises(deepl.exceptions.GlossaryNotFoundException):
            use(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="expected the id or the name of a kept glossary"):
        bob.translate_text("A dog.", source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    client.delete_glossary(made)


def test_our_own_protocol(ask: Ask, runs: list[Path], client: Any) -> None:
    entries = [{"source": source, "targets": [target]} for source, target in TERMS.items()]
    request = {"texts": [ENGLISH[0], ENGLISH[1]], "source": "en", "target": "de"}
    one, two = ask(**request, glossary={"entries": entries}).json()["translations"]
    assert one["text"] == placed(runs, ENGLISH[0])
    assert one["warnings"] == two["warnings"] == []
    made = client.create_glossary("kept", "EN", "DE", TERMS)
    for name in ("kept", made.glossary_id):
        found = ask(**request, glossary=name).json()["translations"]
        assert [each["text"] for each in found] == [one["text"], two["text"]]
    client.delete_glossary(made)
    upper = [{"source": "HORSE", "targets": ["Katze"]}]
    glossary = {"entries": upper, "ignore_case": True}
    found, _ = ask(**request, glossary=glossary).json()["translations"]
    assert "Katze" in found["text"]


def test_a_term_that_the_vocabulary_can_not_write_is_a_warning(ask: Ask) -> None:
    entries = [{"source": "horse", "targets": ["馬"]}]
    for source, texts in (("en", [ENGLISH[0]]), ("fr", ["horse"])):  # the latter over English
        answer = ask(texts=texts, source=source, target="de", glossary={"entries": entries})
        (found,) = answer.json()["translations"]
        assert found["warnings"] == [
            "glossary: expected 馬 for horse, found it missing: the model's vocabulary can't write 馬"
        ]


def test_over_a_pivot_terms_are_looked_up_in_the_first_language(ask: Ask) -> None:
    entries = [{"source": "cheval", "targets": ["Katze"]}]
    texts = ["Le cheval et le chien sont dans le jardin."]
    answer = ask(texts=texts, source="fr", target="de", glossary={"entries": entries})
    (found,) = answer.json()["translations"]
    assert found["pivot"] == "en"
    assert "Katze" in found["text"]


@pytest.mark.parametrize(
    ("glossary", "sentence"),
    [
        ({"entries": []}, "expected from 1 to 100,000 entries, found 0"),
        ({"entries": [{"source": "a", "targets": []}]}, "from 1 to 32 translations, found 0"),
        ({"entries": [{"source": " ", "targets": ["b"]}]}, "expected a term and its translation"),
        ("none", "expected the id or the name of a kept glossary"),
        ("\u0000", "expected the id or the name of a kept glossary"),
    ],
)
def test_requests_that_are_refused(ask: Ask, glossary: Any, sentence: str) -> None:
    answer = ask(texts=["A dog."], source="en", target="de", glossary=glossary)
    assert answer.status_code in (400, 404)
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"entries": "a"}, "entries line 1: expected a term, a tab and its translation"),
        ({"entries": "a\tb\na\tc"}, "entries line 2: expected each source term once"),
        ({"entries": ""}, "found 0"),
        ({"entries": '"a,b', "entries_format": "csv"}, "expected comma-separated values"),
        ({"name": ""}, "name: string should have at least 1 character"),
        ({"source_lang": None}, "source_lang: input should be a valid string"),
    ],
)
def test_dictionaries_that_are_refused(
    address: str, keys: tuple[KeyStore, str, str], change: dict[str, Any], sentence: str
) -> None:
    body = {"name": "n", "source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
    headers = {"Authorization": f"DeepL-Auth-Key {keys[1]}"}
    answer = httpx.post(f"{address}/v2/glossaries", json=body | change, headers=headers)
    assert answer.status_code == 400
    assert sentence in answer.json()["message"]


def test_comma_separated_entries_have_their_first_two_columns() -> None:
    made = make_dictionary("en-GB", "DE", 'bank,"die ""Bank""",en,de\ncat,Katze\n', "csv")
    assert (made.source, made.target, made.count) == ("en", "de", 2)
    assert made.entries == 'bank\tdie "Bank"\ncat\tKatze'


def test_a_term_may_begin_as_a_comment_does_elsewhere(tmp_path: Path) -> None:
    made = make_dictionary("en", "de", "#hashtag\t#Hashtag\ndog\tHund")
    assert (made.count, made.entries) == (2, "#hashtag\t#Hashtag\ndog\tHund")
    store = GlossaryStore(tmp_path / "g.db")
    kept = store.create("me", "n", [made])
    assert len(store.glossary("me", kept.identifier, "en", "de").entries) == 2


def test_glossaries_outlive_the_server_and_are_shared_by_processes(tmp_path: Path) -> None:
    store, other = GlossaryStore(tmp_path / "g.db"), GlossaryStore(tmp_path / "g.db")
    kept = store.create("me", "n", [make_dictionary("en", "de", "a\tb")])
    assert other.find("me", "n") == kept
    assert other.glossary("me", "n", "en", "de-AT").entries == (Entry("a", ("b",)),)
    store.update("me", kept.identifier, None, [make_dictionary("en", "de", "c\td\te")], merge=True)
    assert other.glossary("me", "n", "en", "de").entries == (Entry("a", ("b",)), Entry("c", ("d", "e")))
    for each in (store, other):
        each.close()
    assert (tmp_path / "g.db").stat().st_mode & 0o077 == 0


def test_another_file_is_no_file_of_glossaries(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but some text that is long enough" * 9, encoding="utf-8")
    with pytest.raises(DataError, match="text: expected a file of glossaries"):
        GlossaryStore(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE dictionaries (name TEXT)")
    other.close()
    with pytest.raises(DataError, match=r"other\.db: expected a file of glossaries"):
        GlossaryStore(tmp_path / "other.db")


def test_the_guard_is_reported(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every output counts as one that repeats itself, so that all are searched again."""
    monkeypatch.setattr(guard, "loops", lambda tokens, *bounds: isinstance(tokens, tuple))
    with translating(runs[:1], search={"guard": True}) as address:
        request = {"texts": [ENGLISH[0]], "source": "en", "target": "de"}
        (found,) = httpx.post(f"{address}/v1/translate", json=request).json()["translations"]
        plain = httpx.post(f"{address}/v1/translate", json=request | {"guard": False}).json()
        metrics = httpx.get(f"{address}/metrics").text
    translator = Translator.load(runs[0], device="cpu")
    (without,) = plain["translations"]
    assert without["text"] == translator.translate(ENGLISH[:1])[0].text
    assert without["warnings"] == []
    assert found["text"] in (translator.translate(ENGLISH[:1], no_repeat_ngram=3)[0].text, without["text"])
    (warning,) = found["warnings"]
    assert warning.startswith("guard: a first output that repeats itself, searched again")
    assert 'headwise_sentences_searched_again_total{model="en-de",outcome="kept"} 1.0' in metrics


def test_dictionaries_in_a_form(address: str, keys: tuple[KeyStore, str, str]) -> None:
    """As DeepL's client for Node.js sends them."""
    headers = {"Authorization": f"DeepL-Auth-Key {keys[1]}"}
    fields = {"name": "form"}
    for number, (source, entries) in enumerate({"en": "a\tb", "de": "c\td\ne\tf"}.items()):
        pair = {"source_lang": source, "target_lang": "fr", "entries": entries, "entries_format": "tsv"}
        fields |= {f"dictionaries[{number}].{name}": value for name, value in pair.items()}
    made = httpx.post(f"{address}/v3/glossaries", data=fields, headers=headers)
    assert made.status_code == 201
    assert [one["entry_count"] for one in made.json()["dictionaries"]] == [2, 1]
    place = f"{address}/v3/glossaries/{made.json()['glossary_id']}"
    assert httpx.patch(place, data={"name": "new"}, headers=headers).json()["name"] == "new"
    assert httpx.delete(f"{address}/v3/glossaries/new", headers=headers).status_code == 204
    fields = {"name": "form", "dictionaries[0].entries": "a\tb"}
    wrong = httpx.post(f"{address}/v3/glossaries", data=fields, headers=headers)
    assert wrong.status_code == 400
    assert "dictionaries.0.source_lang" in wrong.json()["message"]

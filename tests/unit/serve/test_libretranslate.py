"""LibreTranslate's protocol, with its Python client and with curl."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from email.utils import collapse_rfc2231_value
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")
pytest.importorskip("libretranslatepy")

import httpx
import libretranslatepy

from headwise.engine.translator import Translator
from translator_run import ENGLISH


def post(address: str, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{address}/{path}", json=fields, timeout=60)


def test_its_client_translates_as_the_library(address: str, translator: Translator) -> None:
    client = libretranslatepy.LibreTranslateAPI(address)
    expected = translator.translate(ENGLISH[:1])[0].text
    assert client.translate(ENGLISH[0], "en", "de") == expected
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["fr"]},
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "fr", "name": "French", "targets": []},
    ]
    best, *_ = client.detect("Die alte Frau liest eine Zeitung, und ihre Katze schläft.")
    assert best["language"] == "de"
    assert 50 < best["confidence"] <= 100


def test_several_sentences_and_lists(address: str, translator: Translator) -> None:
    one, two = (translation.text for translation in translator.translate(ENGLISH[:2]))
    text = f"  {ENGLISH[0]} {ENGLISH[1]}\n\n- {ENGLISH[1]}\n"
    answer = post(address, "translate", q=[text, ENGLISH[0]], source="en", target="de")
    assert answer.json() == {"translatedText": [f"  {one} {two}\n\n- {two}\n", one]}


def test_alternatives_are_the_beams_hypotheses(address: str, translator: Translator) -> None:
    outputs = translator.translate(ENGLISH[:1], n_best=3)[0].outputs
    answer = post(address, "translate", q=ENGLISH[0], source="en", target="de", alternatives=2).json()
    assert [answer["translatedText"], *answer["alternatives"]] == list(dict.fromkeys(o.text for o in outputs))


def test_a_language_is_detected(address: str) -> None:
    answer = post(address, "translate", q=ENGLISH[2], source="auto", target="de").json()
    assert answer["detectedLanguage"]["language"] == "en"
    assert (
        answer["translatedText"]
        == post(address, "translate", q=ENGLISH[2], source="en", target="de").json()["translatedText"]
    )


def test_the_language_of_a_text_without_letters_is_a_guess_without_confidence(address: str) -> None:
    (best,) = libretranslatepy.LibreTranslateAPI(address).detect("12:30")
    assert best["confidence"] == 0
    assert best == post(address, "translate", q="12:30", source="auto", target="fr").json()["detectedLanguage"]
    nothing = post(address, "detect", q="")
    assert (nothing.status_code, [*nothing.json()]) == (400, ["error"])


def test_a_common_language_between_two_models(address: str, runs: list[Path], translator: Translator) -> None:
    german = translator.translate(ENGLISH[:1])[0].text
    french = Translator.load(runs[1], device="cpu").translate([german])[0].text
    answer = post(address, "translate", q=ENGLISH[0], source="en", target="fr").json()
    assert answer == {"translatedText": french, "pivotLanguage": "de"}


def test_a_text_in_the_target_language_is_returned(address: str) -> None:
    answer = post(address, "translate", q="Zwei Hunde", source="de", target="de").json()
    assert answer == {"translatedText": "Zwei Hunde"}


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"source": "en", "target": "de"}, 400, "q: field required"),
        ({"q": "a", "source": "xx", "target": "de"}, 400, "source: expected one of de, en, found 'xx'"),
        ({"q": "a", "source": "en", "target": "xx"}, 400, "target: expected one of de, fr, found 'xx'"),
        (
            {"q": "a", "source": "en", "target": "de", "format": "pdf"},
            400,
            "format: input should be 'text' or 'html'",
        ),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "many"}, 400, "alternatives: "),
        ({"q": "a" * 3_001, "source": "en", "target": "de"}, 413, "at most 3,000 characters, found 3,001"),
        ({"q": ["a"] * 11, "source": "en", "target": "de"}, 413, "at most 10 texts, found 11"),
        ({"q": "\ud800", "source": "en", "target": "de"}, 400, "surrogate"),
    ],
)
def test_wrong_fields(address: str, fields: dict[str, Any], status: int, sentence: str) -> None:
    answer = httpx.post(
        f"{address}/translate", content=json.dumps(fields), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert sentence in answer.json()["error"]


def test_curl_as_in_its_documentation(address: str, translator: Translator, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    expected = translator.translate(ENGLISH[:1])[0].text

    def curl(*arguments: str) -> Any:
        done = subprocess.run(["curl", "-sS", *arguments], capture_output=True, check=True, timeout=60)
        return json.loads(done.stdout)

    form = ["-d", f"q={ENGLISH[0]}", "-d", "source=en", "-d", "target=de"]
    assert curl("-X", "POST", f"{address}/translate", *form) == {"translatedText": expected}
    body = json.dumps({"q": ENGLISH[0], "source": "en", "target": "de", "format": "text", "api_key": ""})
    json_type = ["-H", "Content-Type: application/json"]
    assert curl("-X", "POST", f"{address}/translate", *json_type, "-d", body) == {"translatedText": expected}
    file = tmp_path / "ein Übungstext.txt"
    file.write_text(f"{ENGLISH[0]}\n", encoding="utf-8")
    fields = ["-F", f"file=@{file}", "-F", "source=en", "-F", "target=de"]
    link = curl("-X", "POST", f"{address}/translate_file", *fields)["translatedFileUrl"]
    assert link.startswith(f"{address}/download_file/")
    with urllib.request.urlopen(link) as answer:  # which takes an address as it is, as curl does
        assert answer.read().decode() == f"{expected}\n"
        named = answer.headers.get_params(header="Content-Disposition")
        assert file.name in [collapse_rfc2231_value(value) for key, value in named if key == "filename"]
    assert httpx.get(link[:-40] + "0" * 40).status_code == 404


def test_a_form_in_an_encoding_that_fails_is_refused(address: str) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=X; charset=undefined"}
    form = b'--X\r\nContent-Disposition: form-data; name="q"\r\n\r\nA dog.\r\n--X--\r\n'
    answer = httpx.post(f"{address}/translate", content=form, headers=kind)
    assert answer.status_code == 400
    assert answer.json() == {"error": "form: expected text in UTF-8, found another encoding"}


@pytest.mark.parametrize(
    ("name", "kept"),
    [("Re\u0301sume\u0301.txt",) * 2, ("हिन्दी.txt",) * 2, ("../a\u202e?b.txt", "a__b.txt")],
)
def test_a_file_keeps_the_letters_of_its_name(address: str, name: str, kept: str) -> None:
    sent = {"data": {"source": "en", "target": "de"}, "files": {"file": (name, b"A dog.\n")}}
    link = httpx.post(f"{address}/translate_file", **sent).json()["translatedFileUrl"]
    with urllib.request.urlopen(link) as answer:
        named = answer.headers.get_params(header="Content-Disposition")
        assert collapse_rfc2231_value([value for key, value in named if key == "filename"][-1]) == kept


def test_other_addresses(address: str) -> None:
    assert httpx.get(f"{address}/health").json() == {"status": "ok"}
    settings = httpx.get(f"{address}/frontend/settings").json()
    assert (settings["charLimit"], settings["keyRequired"]) == (3_000, False)
    for method in ("GET", "PUT"):
        wrong = httpx.request(method, f"{address}/translate", params={"q": "a", "target": "de"})
        assert (wrong.status_code, wrong.json()) == (
            405,
            {"error": f"/translate: expected POST, found {method}"},
        )
        assert wrong.headers["allow"] == "POST"
    for elsewhere in ("/translate/", "/translation"):
        missing = httpx.post(f"{address}{elsewhere}")
        assert (missing.status_code, missing.json()) == (404, {"error": f"there is nothing at {elsewhere}"})
    refused = post(address, "suggest", q="a", s="b", source="en", target="de")
    assert (refused.status_code, refused.json()) == (
        403,
        {"error": "suggestions are disabled on this server"},
    )
    page = httpx.get(f"{address}/")
    assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("sent", ["q=€ → ½&source=en&target=de", "q=%E2%82%AC+%E2%86%92+%C2%BD&source=en&target=de"])
def test_fields_in_utf_8_may_be_quoted_or_not(address: str, sent: str) -> None:
    """`curl -d "q=…"` sends a text as it is; `--data-urlencode` and browsers quote it."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{address}/translate", content=sent.encode(), headers=kind)
    assert answer.json()["translatedText"] == "€ → ½"


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"q=\xa320&target=de", "form: expected text in UTF-8, found another encoding"),
        (b"q=%A320&target=de", "form: expected text in UTF-8, found another encoding"),
        (b"q=a&" * 1001, "form: expected at most 1,000 fields, found more"),
    ],
)
def test_a_damaged_form_is_named(address: str, sent: bytes, sentence: str) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{address}/translate", content=sent, headers=kind)
    assert (answer.status_code, answer.json()) == (400, {"error": sentence})

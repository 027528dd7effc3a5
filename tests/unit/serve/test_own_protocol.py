"""Headwise's own protocol, its description, the metrics and the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx
from prometheus_client.parser import text_string_to_metric_families

from headwise.engine.translator import Translator
from headwise.serve.protocols.keys import KeyStore
from serve_sockets import serving
from translation_server import events_of, production_of, translating
from translator_run import ENGLISH, GERMAN

CANARY = "Kanarienvogelgesang"


def post(address: str, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{address}/v1/{path}", json=fields, timeout=60)


def test_all_that_a_translation_has(address: str, translator: Translator) -> None:
    answer = post(
        address, "translate", texts=ENGLISH[:2], source="en", target="de", beam=4, n_best=2, alignments=True
    ).json()
    expected = translator.translate(ENGLISH[:2], beam=4, n_best=2, alignments=True)
    for found, translation in zip(answer["translations"], expected, strict=True):
        assert found["text"] == translation.text
        assert (found["source"], found["models"], found["pivot"]) == ("en", ["en-de"], None)
        (sentence,) = found["sentences"]
        for given, output in zip(sentence["outputs"], translation.outputs, strict=True):
            assert given["text"] == output.text
            assert given["pieces"] == list(output.pieces)
            assert given["log_probability"] == output.log_probability
            assert given["token_log_probabilities"] == list(output.token_log_probabilities)
            assert [tuple(link) for link in given["alignment"]] == list(output.alignment or ())


def test_prefixes(address: str, translator: Translator) -> None:
    prefix = "Ein Mann"
    answer = post(address, "translate", texts=ENGLISH[:1], source="en", target="de", prefixes=[prefix]).json()
    assert answer["translations"][0]["text"] == translator.translate(ENGLISH[:1], prefixes=[prefix])[0].text


def test_a_prefix_is_that_of_the_text_and_not_of_a_message_in_it(address: str, translator: Translator) -> None:
    prefix, message = "Ein Mann", "{n, plural, other {Two dogs run.}}"
    text = f"{ENGLISH[0]} {message}"
    (found,) = post(
        address, "translate", texts=[text], source="en", target="de", prefixes=[prefix], scores=True
    ).json()["translations"]
    inside, outside = (sentence["outputs"][0]["text"] for sentence in found["sentences"])
    assert inside == translator.translate(["Two dogs run."])[0].text
    assert outside.startswith(prefix)


def test_a_language_between_two_models(address: str) -> None:
    (found,) = post(address, "translate", texts=ENGLISH[:1], source="en", target="fr").json()["translations"]
    assert (found["models"], found["pivot"]) == (["en-de", "de-fr"], "de")


def test_scores_are_the_librarys(address: str, translator: Translator) -> None:
    fields = {"sources": ENGLISH[:2], "targets": GERMAN[:2]}
    answer = post(address, "score", **fields, source="en", target="de").json()
    expected = translator.score(ENGLISH[:2], GERMAN[:2])
    assert [one["log_probability"] for one in answer["scores"]] == [one.log_probability for one in expected]
    refused = post(address, "score", **fields, source="en", target="fr")
    assert (refused.status_code, refused.json()["error"][:7]) == (400, "target:")
    fields = {"sources": ["A dog.", "dogs " * 100], "targets": GERMAN[:2]}
    refused = post(address, "score", **fields, source="en", target="de")
    assert (refused.status_code, refused.json()["error"][-15:]) == (400, "text 2 too long")


def test_a_document_is_streamed_sentence_by_sentence(address: str, translator: Translator) -> None:
    text = f"{ENGLISH[0]} {ENGLISH[1]}\n\n{ENGLISH[2]}"
    expected = [translation.text for translation in translator.translate(ENGLISH[:3])]
    fields = {"text": text, "source": "en", "target": "de"}
    with httpx.stream("POST", f"{address}/v1/translate/stream", json=fields, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of("".join(answer.iter_text()))
    assert [(kind, data["text"]) for kind, data in events] == [
        *(("sentence", one) for one in expected),
        ("end", f"{expected[0]} {expected[1]}\n\n{expected[2]}"),
    ]
    refused = post(address, "translate/stream", text="a", source="en", target="xx")
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({}, 422, "texts: field required"),
        ({"texts": ["a"]}, 400, "target: expected a language code"),
        ({"texts": ["a"], "model": "none"}, 400, "model: expected one of en-de, de-fr, found 'none'"),
        (
            {"texts": ["a"], "model": "en-de", "beam": 1, "n_best": 2},
            400,
            "n_best: expected at most the beam",
        ),
        ({"texts": ["a"], "target": "de", "colour": 1}, 422, "colour: extra inputs are not permitted"),
        ({"texts": ["a"], "model": "en-de", "target": "fr"}, 400, "target: expected one of de, found 'fr'"),
        ({"texts": ["a"] * 11, "model": "en-de"}, 413, "at most 10 texts"),
        ({"texts": ["a"], "model": "en-de", "prefixes": []}, 400, "prefixes: expected one for each"),
    ],
)
def test_wrong_requests(address: str, fields: dict[str, Any], status: int, sentence: str) -> None:
    answer = post(address, "translate", **fields)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_models_and_description(address: str) -> None:
    models = httpx.get(f"{address}/v1/models").json()["models"]
    assert [(one["name"], one["source"], one["target"]) for one in models] == [
        ("en-de", "en", "de"),
        ("de-fr", "de", "fr"),
    ]
    page = httpx.get(f"{address}/docs").text
    for path in ("/translate", "/v2/translate", "/v1/translate/stream", "/v1/score"):
        assert path in httpx.get(f"{address}/openapi.json").json()["paths"]
        assert path in page
    assert "http://" not in page  # nothing of another host
    assert "https://" not in page
    assert "<script" not in page


def test_alive_ready_and_metrics(address: str) -> None:
    for method in ("GET", "HEAD"):  # many monitors ask with HEAD
        assert httpx.request(method, f"{address}/livez").status_code == 200
        assert httpx.request(method, f"{address}/readyz").status_code == 200
    post(address, "translate", texts=["A dog."], source="en", target="de")
    httpx.get(f"{address}/v3/glossaries")
    text = httpx.get(f"{address}/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {
        tuple(sample.labels[name] for name in ("protocol", "route", "status")): sample.value
        for sample in families["headwise_requests"].samples
        if sample.name.endswith("_total")
    }
    assert counted["headwise", "/v1/translate", "200"] >= 1
    assert counted["deepl", "/v3/glossaries", "400"] >= 1  # as this server keeps none
    assert counted["other", "/livez", "200"] >= 1
    assert {sample.labels["model"] for sample in families["headwise_waiting_sentences"].samples} == {
        "en-de",
        "de-fr",
    }
    assert "headwise_request_seconds" in families
    assert families["headwise_characters"].samples[0].value > 0


def test_a_server_without_languages_is_not_ready(tmp_path: Path) -> None:
    from translator_run import make_run

    with translating([make_run(tmp_path / "run")]) as address:
        assert httpx.get(f"{address}/readyz").status_code == 503
        assert httpx.get(f"{address}/livez").status_code == 200
        assert httpx.get(f"{address}/languages").json() == []
        answer = post(address, "translate", texts=["a"], target="de")
        assert answer.status_code == 503


def test_no_log_has_a_text(runs: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = KeyStore(tmp_path / "keys.db", create=True)
    secret = store.add("alice")
    log: list[dict[str, Any]] = []
    app, production = production_of(runs[:1], keys=store, log=log.append)
    with serving(app) as port:
        address = f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {secret}"}
        for fields in (
            {"texts": [CANARY], "target": "de"},
            {"texts": CANARY},
            {"texts": [CANARY], "target": CANARY},
        ):
            httpx.post(f"{address}/v1/translate?text={CANARY}", json=fields, headers=headers, timeout=60)
        httpx.post(f"{address}/v2/translate?text={CANARY}", timeout=60)
        httpx.post(f"{address}/translate", data={"q": CANARY, "api_key": CANARY}, timeout=60)
        httpx.get(f"{address}/{CANARY}")

        def fail(*arguments: Any, **options: Any) -> None:
            raise ValueError(CANARY)

        production.service.models.all[0].translator.encode = fail  # type: ignore[method-assign]
        fields = {"texts": [CANARY], "source": "en", "target": "de"}
        failed = httpx.post(f"{address}/v1/translate", json=fields, headers=headers, timeout=60)
        assert (failed.status_code, list(failed.json())) == (500, ["error"])
    written = capfd.readouterr()
    assert CANARY not in written.out + written.err + json.dumps(log)
    assert secret not in json.dumps(log)
    assert [(entry["route"], entry["status"], entry["key"]) for entry in log][:2] == [
        ("/v1/translate", 200, "alice"),
        ("/v1/translate", 422, None),
    ]
    assert log[-1]["failure"][0] == "ValueError"
    assert len({entry["request"] for entry in log}) == len(log)


def test_foreign_pages_need_to_be_named(runs: list[Path]) -> None:
    page = {"Origin": "https://lab.example"}
    fields = {"texts": ["A dog."], "source": "en", "target": "de"}
    for origins, status in ((["https://lab.example"], 200), ([], 403)):
        with translating(runs[:1], origins=origins) as address:
            answer = httpx.post(f"{address}/v1/translate", json=fields, headers=page, timeout=60)
            assert answer.status_code == status
            allowed = answer.headers.get("access-control-allow-origin")
            assert allowed == ("https://lab.example" if origins else None)
            assert httpx.get(f"{address}/api/runs", headers=page).status_code == 403
            for method in ("POST", "PUT", "PATCH", "DELETE"):  # what a browser asks for before it sends them
                asked = page | {"Access-Control-Request-Method": method}
                answer = httpx.options(f"{address}/v3/glossaries/id", headers=asked)
                assert answer.status_code == status

"""Requests for fixed addresses have the answers that FastAPI's own search for a route gives."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs pip install 'headwise[serve]'")

from fastapi.testclient import TestClient

from headwise.page.application import Page
from headwise.page.runs import open_runs
from headwise.serve.production import open_production
from headwise.web.dispatch import FixedAddresses
from translation_server import make_pair
from translator_run import ENGLISH

PAIR = {"source": "en", "target": "de"}
DEEPL = {"text": ENGLISH[:2], "source_lang": "EN", "target_lang": "DE"}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, TestClient]:
    """Clients of the application with and without the middleware."""
    opened = open_runs([make_pair(tmp_path_factory.mktemp("runs"), "en", "de")], "cpu")
    production = open_production(opened, say=lambda sentence: None)
    apps = [production.app(Page(opened)) for _ in range(2)]
    apps[1].user_middleware = [one for one in apps[1].user_middleware if one.cls is not FixedAddresses]
    first, second = (
        TestClient(app, base_url="http://localhost", raise_server_exceptions=False) for app in apps
    )
    return first, second


@pytest.mark.parametrize(
    ("method", "path", "request_"),
    [
        ("POST", "/translate", {"json": {"q": ENGLISH[0], **PAIR}}),
        ("POST", "/translate", {"json": {"q": ENGLISH[:2], "alternatives": 2, **PAIR}}),
        ("POST", "/translate", {"data": {"q": "<b>A</b> dog.", "format": "html", **PAIR}}),
        ("POST", "/translate?source=en&target=de", {"json": {"q": "see https://example.org now"}}),
        ("POST", "/translate", {"json": {"q": "a", "source": "xx", "target": "de"}}),
        ("POST", "/translate", {"json": {"q": "a" * 60_000, **PAIR}}),
        ("POST", "/translate", {"json": {"target": "de"}}),
        ("POST", "/translate", {"content": b"{", "headers": {"content-type": "application/json"}}),
        (
            "POST",
            "/translate",
            {"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=b"}},
        ),
        ("POST", "/translate", {}),
        ("POST", "/translate/", {"json": {}}),
        ("GET", "/translate", {}),
        ("POST", "/detect", {"json": {"q": "A dog."}}),
        ("POST", "/suggest", {"json": {"q": "a", "s": "b", **PAIR}}),
        ("POST", "/translate_file", {"data": PAIR, "files": {"file": ("a.exe", b"x")}}),
        ("POST", "/v2/translate", {"json": DEEPL}),
        ("POST", "/v2/translate", {"json": DEEPL | {"target_lang": "XX"}}),
        ("POST", "/v2/glossaries", {"json": {}}),
    ],
)
def test_the_answers_are_the_same(
    clients: tuple[TestClient, TestClient], method: str, path: str, request_: dict[str, Any]
) -> None:
    found, expected = (client.request(method, path, follow_redirects=False, **request_) for client in clients)
    assert found.status_code == expected.status_code
    assert found.content == expected.content
    for answer in (found, expected):
        del answer.headers["x-request-id"]
    assert found.headers == expected.headers


def test_metrics_have_the_same_routes(clients: tuple[TestClient, TestClient]) -> None:
    def requests(client: TestClient) -> float:
        lines = client.get("/metrics").text.splitlines()
        name = 'headwise_requests_total{protocol="libretranslate",route="/translate",status="200"}'
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    before = requests(clients[0])
    for client in clients:
        client.post("/translate", json={"q": ENGLISH[0], **PAIR})
    assert requests(clients[0]) == before + 2

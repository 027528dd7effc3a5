"""The server has the chapters at /learn/, with the headers of all its answers."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the server needs starlette: pip install 'headwise[serve]'")
from starlette.testclient import TestClient

from headwise.learn.rendering import PICTURES, names, page
from headwise.page.application import page_app
from headwise.web.guard import SECURITY_HEADERS


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(page_app({}), base_url="http://127.0.0.1")


def test_every_page_has_its_address(client: TestClient) -> None:
    for name in names():
        answer = client.get(f"/learn/{name}")
        assert answer.status_code == 200
        assert answer.text == page(name)
        assert answer.headers["content-type"].startswith("text/html")
        assert SECURITY_HEADERS.items() <= {key: answer.headers.get(key) for key in SECURITY_HEADERS}.items()
    assert str(client.get("/learn").url) == "http://127.0.0.1/learn/"


def test_pictures(client: TestClient) -> None:
    for picture in PICTURES.iterdir():
        answer = client.get(f"/learn/pictures/{picture.name}")
        assert answer.content == picture.read_bytes()
        assert answer.headers["content-type"].startswith("image/svg+xml")


@pytest.mark.parametrize(
    "path", ["/learn/15", "/learn/README.md", "/learn/..%2f..%2fapp.py", "/learn/pictures/..%2fREADME.md"]
)
def test_nothing_else_is_there(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "there is nothing at /learn/" in answer.json()["error"]

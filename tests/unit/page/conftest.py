"""A small run and its page, for the tests that only ask it questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from starlette.testclient import TestClient


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from translator_run import make_run

    return make_run(tmp_path_factory.mktemp("runs") / "small", seed=3)


@pytest.fixture(scope="package")
def client(run: Path) -> TestClient:
    from starlette.testclient import TestClient

    from headwise.page.application import page_app
    from headwise.page.runs import PageRun

    return TestClient(page_app(PageRun.open_all([run], "cpu")), base_url="http://localhost")

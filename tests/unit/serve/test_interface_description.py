"""Requests made from the OpenAPI description by schemathesis: no server error, and answers as described."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs pip install 'headwise[serve]'")
pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headwise.serve.translation.limits import ServiceLimits
from translation_server import make_pair, production_of

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> schemathesis.Schema:
    folder = tmp_path_factory.mktemp("runs")
    app, _ = production_of([make_pair(folder, "en", "de")], ServiceLimits(characters=2_000, items=5))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


schema = schemathesis.pytest.from_fixture("description")


@schema.parametrize()
@settings(max_examples=12, derandomize=True)
def test_no_request_breaks_the_server(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, headers={"Host": "localhost"})

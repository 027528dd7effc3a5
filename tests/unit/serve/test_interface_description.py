"""Requests made from the OpenAPI description by schemathesis: no server error, and answers as described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from hypothesis import HealthCheck, given, settings

from headwise.serve.translation.glossaries import GlossaryStore
from headwise.serve.translation.limits import ServiceLimits
from translation_server import make_pair, translating

if TYPE_CHECKING:
    import schemathesis  # takes two seconds to import, which tests elsewhere needn't wait for


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    schemathesis = pytest.importorskip("schemathesis")
    folder = tmp_path_factory.mktemp("runs")
    limits, store = ServiceLimits(characters=2_000, items=5), GlossaryStore(folder / "glossaries.db")
    with translating([make_pair(folder, "en", "de")], limits, glossaries=store) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def test_no_request_breaks_the_server(description: schemathesis.BaseSchema) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.failures import Failure, FailureGroup
    from schemathesis.specs.openapi import checks

    checked = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    failures: list[str] = []
    operations = [result.ok() for result in description.get_all_operations()]
    assert len(operations) > 25
    for operation in operations:

        @settings(max_examples=10, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=checked, timeout=60)

        try:
            check()
        except (Failure, FailureGroup) as error:
            failures.append(f"{operation.label}: {error} {getattr(error, 'exceptions', '')}")
    assert failures == []

"""Fixtures of the tests of engines."""

from __future__ import annotations

import pytest

from headwise.native.library import Library
from native_engines import LIBRARIES


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES.keys())
def library(request: pytest.FixtureRequest) -> Library:
    return request.param

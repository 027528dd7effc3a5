"""Two runs, a server of them, and the translator of the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwise.engine.translator import Translator


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    from translation_server import make_pair

    folder = tmp_path_factory.mktemp("runs")
    return [make_pair(folder, "en", "de"), make_pair(folder, "de", "fr", seed=1)]


@pytest.fixture(scope="module")
def address(runs: list[Path]) -> Iterator[str]:
    from headwise.serve.translation.limits import ServiceLimits
    from translation_server import translating

    with translating(runs, ServiceLimits(characters=3_000, items=10)) as address:
        yield address


@pytest.fixture(scope="module")
def translator(runs: list[Path]) -> Translator:
    return Translator.load(runs[0], device="cpu")

"""A tracer of a small run, for the tests that only ask it."""

from __future__ import annotations

import pytest

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from translator_run import make_run


@pytest.fixture(scope="package")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> TranslationTracer:
    return TranslationTracer(Translator.load(make_run(tmp_path_factory.mktemp("runs") / "de", seed=3), device="cpu"))

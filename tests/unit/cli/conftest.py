"""A run with random weights, which tests read, and the two sides of a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.engine.translator import Translator


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from translator_run import make_run

    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture(scope="session")
def translator(run: Path) -> Translator:
    return Translator.load(run)


@pytest.fixture
def sides(tmp_path: Path) -> list[Path]:
    """Two files of sentences."""
    from translator_run import ENGLISH, GERMAN

    files = [tmp_path / "test.en", tmp_path / "test.de"]
    for file, lines in zip(files, (ENGLISH, GERMAN), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files

"""Two runs, a server of them, the translator of the first, and DeepL's client with one of two keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str, str]:
    """A file of keys, and the keys of alice and of bob, who has a quota."""
    from headwise.serve.protocols.keys import KeyStore

    store = KeyStore(tmp_path_factory.mktemp("keys") / "keys.db", create=True)
    return store, store.add("alice"), store.add("bob", characters_per_month=60)


@pytest.fixture
def client(address: str, keys: tuple[Any, str, str]) -> Iterator[Any]:
    from translation_server import deepl_client

    with deepl_client(address, keys[1]) as client:
        yield client

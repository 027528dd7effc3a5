"""Each sentence of a request is in a language of its own; what is in the target language stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from headwise.engine.translator import Translator
from headwise.serve.translation.models import Model, ServedModels
from headwise.serve.translation.service import Service, TranslatedText, TranslationJob
from translator_run import make_run

ENGLISH = "The old woman is reading a newspaper in the garden."
GERMAN = "Die alte Frau liest eine Zeitung, und ihre Katze schläft."
FRENCH = "La vieille femme lit un journal dans le jardin."


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serve two models into German, which translate differently."""
    models = [
        Model(source, source, "de", Translator.load(make_run(tmp_path_factory.mktemp(source), seed=seed)))
        for seed, source in enumerate(("en", "fr"))
    ]
    service = Service(ServedModels(models))
    yield service
    asyncio.run(service.close())


def translate(service: Service, text: str, **fields: Any) -> TranslatedText:
    (found,) = asyncio.run(service.translate(TranslationJob([text], "de", **fields)))
    return found


@pytest.mark.parametrize("keep", [True, False])
def test_a_text_of_several_languages(service: Service, keep: bool) -> None:
    options = {"keep_translated": keep}
    english, german = (translate(service, one, source="en").text for one in (ENGLISH, GERMAN))
    french = translate(service, FRENCH, source="fr").text
    assert french != translate(service, FRENCH, source="en").text
    text = f"{ENGLISH} {FRENCH}\n\n  {GERMAN} {ENGLISH}\n"
    expected = f"{english} {french}\n\n  {GERMAN if keep else german} {english}\n"
    found = translate(service, text, options=options)
    assert found.text == expected
    assert found.source == "en"
    assert ("stays as it is" in "".join(found.warnings)) == keep


def test_text_in_the_target_language(service: Service) -> None:
    keep = {"keep_translated": True}
    for fields in ({}, {"source": "en"}, {"model": "en"}):
        found = translate(service, f" {GERMAN}\n", options=keep, **fields)
        assert found.text == f" {GERMAN}\n"
    assert translate(service, GERMAN, options=keep).source == "de"
    short = translate(service, "Hotel", options=keep)
    assert short.text == translate(service, "Hotel", source=short.source).text != "Hotel"


def test_a_given_language_is_that_of_all_sentences(service: Service) -> None:
    both = translate(service, f"{ENGLISH} {FRENCH}", source="en")
    assert both.text.endswith(translate(service, FRENCH, source="en").text)


def test_a_stream_is_the_translation(service: Service) -> None:
    async def events() -> list[tuple[str, dict[str, Any]]]:
        job = TranslationJob([f"{FRENCH} {GERMAN}"], "de", options={"keep_translated": True})
        return [event async for event in service.stream(job)]

    *sentences, (_, end) = asyncio.run(events())
    assert [event["text"] for _, event in sentences][1] == GERMAN
    assert end["text"] == translate(service, f"{FRENCH} {GERMAN}", options={"keep_translated": True}).text

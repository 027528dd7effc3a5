"""A run whose vocabulary has codes of several target languages: each of them is a pair that is served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx

from headwise.config.languages import NAMES, short_code
from headwise.engine.translator import Translator
from headwise.serve.translation.models import Model, ServedModels
from multilingual_run import CODES, make_multilingual
from translation_server import translating
from translator_run import ENGLISH


@pytest.fixture(scope="module", params=["source", "target"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_multilingual(tmp_path_factory.mktemp("runs"), request.param)


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    with translating([run]) as address:
        yield address


def ours(address: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{address}/v1/translate", json={"texts": ENGLISH, "guard": False, **fields}, timeout=60)


def test_every_language_is_served(run: Path, address: str) -> None:
    expected = {
        code: [one.text for one in Translator.load(run, device="cpu", language=code).translate(ENGLISH)]
        for code in CODES[:3]
    }
    assert len({tuple(texts) for texts in expected.values()}) == 3
    for target, code in (("de", CODES[0]), ("deu", CODES[0]), ("fr", CODES[1]), ("pt-BR", CODES[2])):
        for named in ({"source": "en"}, {"model": "en-many"}):
            found = ours(address, target=target, **named).json()["translations"]
            assert [one["text"] for one in found] == expected[code]
    unnamed = ours(address, model="en-many").json()["translations"]
    assert [one["text"] for one in unnamed] == expected[">>fra<<"]  # which the run has chosen
    assert ours(address, source="en", target="es").status_code == 400
    (language,) = [one for one in httpx.get(f"{address}/languages").json() if one["code"] == "en"]
    assert language["targets"] == ["de", "fr", "pt-BR"]
    (model,) = httpx.get(f"{address}/v1/models").json()["models"]
    assert (model["target"], model["targets"]) == ("fr", ["de", "fr", "pt-BR"])


def test_alignments_are_of_the_language(run: Path, address: str) -> None:
    translator = Translator.load(run, device="cpu", language="deu")
    expected = translator.translate(ENGLISH, alignments=True)
    found = ours(address, source="en", target="de", alignments=True).json()["translations"]
    for ours_, theirs in zip(found, expected, strict=True):
        links = [list(link) for link in theirs.outputs[0].alignment or ()]
        assert ours_["sentences"][0]["outputs"][0]["alignment"] == links


def test_a_vocabulary_may_have_chosen_none(tmp_path: Path) -> None:
    run = make_multilingual(tmp_path, "source", language="")
    with translating([run]) as address:
        for target in ("de", "fr"):
            expected = Translator.load(run, device="cpu", language=f">>{'deu' if target == 'de' else 'fra'}<<")
            (one, *_) = ours(address, source="en", target=target).json()["translations"]
            assert one["text"] == expected.translate(ENGLISH[:1])[0].text


def test_schedulers_are_made_when_they_are_needed(run: Path) -> None:
    model = Model("m", "en", "fr", Translator.load(run, device="cpu"))
    models = ServedModels([model])
    (german,) = models.route("en", "de")
    assert models.route("en", "de") == [german]
    assert model.further_schedulers == []
    own = german.translator.symbols.given != ()
    assert (german.scheduler is model.scheduler) == (not own)
    assert len(model.further_schedulers) == own
    models.renew(Model("m", "en", "fr", Translator.load(run, device="cpu")))
    assert models.route("en", "de") != [german]
    for one in (model.scheduler, *model.further_schedulers):
        one.close(finish=True)
    models.all[0].scheduler.close(finish=True)


def test_a_model_is_named_while_it_is_renewed(run: Path) -> None:
    class Asked(Model):
        def by_target(self) -> dict[str, Model]:
            named.append(models.named("m", "de"))  # as another thread may, which prepares a request
            return super().by_target()

    named: list[Model] = []
    before = Model("m", "en", "fr", Translator.load(run, device="cpu"))
    models = ServedModels([before])
    german = models.named("m", "de")
    models.renew(Asked("m", "en", "fr", before.translator))
    assert named == [german]
    assert models.named("m") is models.all[0] is not before
    for one in (before, models.all[0]):
        one.scheduler.close(finish=True)


def test_codes_in_full() -> None:
    assert [short_code(code) for code in ("deu", "ger", "por_BR", "en", "cmn_Hans", "xyz")] == [
        *("de", "de", "pt-BR", "en", "cmn-Hans", "xyz")
    ]
    assert {short_code(code) for code in ("fra", "zho", "nob", "swe")} <= set(NAMES)

"""The engine `ctranslate2` against Headwise's own search."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from headwise.cli.main import run as headwise
from headwise.decoding.loading import EngineOptions, open_run
from headwise.decoding.translator import Translator
from headwise.errors import ConfigError
from headwise.text.tokens.subwords import EOS
from translator_run import ENGLISH, make_run

pytest.importorskip("ctranslate2", reason="needs the extra 'ctranslate2'")

MODELS: dict[str, dict[str, Any]] = {
    "paper": {"share_embeddings": "all"},
    "pre-norm": {"norm": "pre", "source_end": False},
}


@pytest.fixture(scope="module", params=MODELS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose outputs end before the limit, at which the searches differ by definition."""
    run = make_run(tmp_path_factory.mktemp("runs") / "de", logit_bias=True, **MODELS[request.param])
    tensors = load_file(run / "model.safetensors")
    tensors["logit_bias"][EOS] = 3.5
    save_file(tensors, run / "model.safetensors")
    return run


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 1, "min_length": 5, "allow_unknown": True},
        {"beam": 4, "alpha": 0.0},
        {"beam": 4, "alpha": 0.6, "n_best": 4},
        {"beam": 3, "alpha": 1.0, "patience": 2.0, "extra_length": 20},
    ],
)
def test_outputs_and_scores_are_those_of_the_own_search(run: Path, options: dict[str, Any]) -> None:
    theirs = Translator.load(run, engine="ctranslate2", device="cpu", precision="float32", workers=2)
    ours = Translator.load(run, engine="pytorch", device="cpu")
    assert theirs.engine.startswith("CTranslate2 ")
    assert theirs.engine.endswith(", float32, 2 workers")
    texts = [*ENGLISH, ""]
    for found, expected in zip(
        theirs.translate(texts, **options), ours.translate(texts, **options), strict=True
    ):
        best = expected.outputs[0]
        assert len(best.tokens) < len(found.source_pieces) + 4
        assert found.outputs[0].tokens == best.tokens
        assert found.score == pytest.approx(expected.score, abs=1e-4)
        assert found.outputs[0].token_log_probabilities == pytest.approx(
            best.token_log_probabilities, abs=1e-4
        )
        assert [output.score for output in found.outputs] == sorted(
            (output.score for output in found.outputs), reverse=True
        )


def test_scores_alignments_and_the_model_are_those_of_pytorch(run: Path) -> None:
    theirs = Translator.load(run, engine="ctranslate2", device="cpu")
    ours = Translator.load(run, engine="pytorch", device="cpu")
    assert theirs.score(ENGLISH, ENGLISH) == ours.score(ENGLISH, ENGLISH)
    assert theirs.align(ENGLISH, ENGLISH) == ours.align(ENGLISH, ENGLISH)


def test_int8_is_an_option(run: Path) -> None:
    translator = Translator.load(run, engine="ctranslate2", device="cpu", precision="int8", workers=1)
    assert "int8" in translator.engine
    assert len(translator.translate(ENGLISH)) == len(ENGLISH)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sample": True, "beam": 1}, "ctranslate2 has no sample"),
        ({"no_repeat_ngram": 2}, "ctranslate2 has no no_repeat_ngram"),
        ({"patience": float("inf")}, "ctranslate2 has no infinite patience"),
        ({"prefixes": ["Ein"] * len(ENGLISH)}, "no prefixes of translations"),
    ],
)
def test_what_it_has_not_is_refused(run: Path, options: dict[str, Any], sentence: str) -> None:
    translator = Translator.load(run, engine="ctranslate2", device="cpu")
    with pytest.raises(ConfigError, match=sentence):
        translator.translate(ENGLISH, **options)


def test_an_ensemble_is_refused(run: Path) -> None:
    translator = Translator.load([run, run], engine="ctranslate2", device="cpu")
    with pytest.raises(ConfigError, match="ctranslate2 has no ensembles"):
        translator.translate(ENGLISH)


def test_a_model_that_it_has_not_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", positions="rotary")
    with pytest.raises(ConfigError, match=r"ctranslate2 can't be used: it has no model\.positions=rotary"):
        open_run(run, EngineOptions("ctranslate2", device="cpu"))


def test_a_precision_that_the_device_has_not_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctranslate2

    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda *_: {"float32"})
    with pytest.raises(
        ConfigError, match="expected auto or one of float32, which CTranslate2 has on this cpu"
    ):
        open_run(run, EngineOptions("ctranslate2", "float16", "cpu"))


def test_without_the_library_the_extra_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert headwise(["translate", str(run), "--engine", "ctranslate2", "--device", "cpu"]) == 2
    assert "ctranslate2 isn't installed: pip install headwise[ctranslate2]" in capsys.readouterr().err

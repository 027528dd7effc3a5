"""`-s KEY=VALUE` is one validated object: the same on the command line, in Python and in the server."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwise.config import Config
from headwise.decoding.generation import Generator
from headwise.engine.options import GenerationOptions, SearchOptions
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from language_model_run import make_language_model_run
from program import call
from translation_server import translating
from translator_run import ENGLISH, GERMAN, make_run

CHANGES: dict[str, Any] = {"no_repeat_ngram": 1, "max_length": 5, "patience": 2.0}
SETTINGS = [word for name, value in CHANGES.items() for word in ("-s", f"{name}={value}")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("runs") / "de")
    config = Config.load(run / "config.yaml", ["data.source_language=en", "data.target_language=de"])
    (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return run


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "text.en", tmp_path / "text.de"]
    for file, lines in zip(files, (ENGLISH, GERMAN), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("patience=2", 2.0),
        ("patience=.inf", math.inf),
        ("max_length=null", None),
        ("guard=true", True),
        ("seed=0x10", 16),
    ],
)
def test_values_are_parsed_as_those_of_the_configuration(setting: str, value: object) -> None:
    (found,) = SearchOptions.parse([setting]).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", [SearchOptions, GenerationOptions])
def test_every_key_can_be_set(kind: type[SearchOptions] | type[GenerationOptions]) -> None:
    for name, value in kind.defaults().items():
        assert kind.parse([f"{name}={json.dumps(value)}"]) == {name: value}
        with pytest.raises(ConfigError, match=f"^-s {name}: expected "):
            kind.parse([f"{name}=[1]"])


def test_temperature_zero_is_greedy_generation_alone() -> None:
    assert GenerationOptions(**GenerationOptions.parse(["temperature=0"])).temperature == 0
    with pytest.raises(ConfigError, match=r"^-s temperature: "):
        SearchOptions.parse(["temperature=0"])


def test_the_program_python_and_the_server_give_the_same(
    run: Path, files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator.load(run)
    expected = [translation.text for translation in translator.translate(ENGLISH, **CHANGES)]
    assert expected != [translation.text for translation in translator.translate(ENGLISH)]
    assert call(capsys, "translate", run, files[0], *SETTINGS).out.splitlines() == expected
    out, test = tmp_path / "out", ("--source", files[0], "--reference", files[1])
    assert call(capsys, "evaluate", run, *test, *SETTINGS, "-o", out).code == 0
    assert out.read_text(encoding="utf-8").splitlines() == expected
    shown = call(capsys, "explain", run, "--text", ENGLISH[0], *SETTINGS, "-o", tmp_path / "a.json")
    assert shown.code == 0, shown.err
    assert json.loads((tmp_path / "a.json").read_text())["hypotheses"][0]["text"] == expected[0]
    with translating([run], search=CHANGES) as address:
        request = {"texts": ENGLISH, "source": "en", "target": "de"}
        answer = httpx.post(f"{address}/v1/translate", json=request, timeout=60).json()
    assert [translation["text"] for translation in answer["translations"]] == expected


def test_evaluate_takes_an_ensemble(
    run: Path, files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, out = make_run(tmp_path / "other", seed=1), tmp_path / "out"
    ensemble, test = Translator.load([run, other]), ("--source", files[0], "--reference", files[1])
    assert call(capsys, "evaluate", run, "--with", other, *test, "-o", out).code == 0
    texts = [translation.text for translation in ensemble.translate(ENGLISH)]
    assert out.read_text(encoding="utf-8").splitlines() == texts
    scored = call(capsys, "evaluate", run, "--with", other, *test, "--per-line").out.splitlines()
    totals = [output.log_probability for output in ensemble.score(ENGLISH, GERMAN)]
    assert [float(line.split("\t")[0]) for line in scored] == pytest.approx(totals, abs=1e-4)


def test_a_language_model_continues_each_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, text = make_language_model_run(tmp_path / "lm"), tmp_path / "text"
    text.write_text("the cat\n\nsat on\n", encoding="utf-8")
    greedy = ("-s", "temperature=0", "-s", "max_tokens=12")
    generator, options = Generator.load(run), GenerationOptions(temperature=0, max_tokens=12)
    continued = [
        prompt and prompt + generator.generate(prompt, options)[0] for prompt in ("the cat", "", "sat on")
    ]
    lines = call(capsys, "predict", run, text, *greedy).out.split("\n")[:-1]
    assert lines == [" ".join(line.splitlines()) for line in continued]
    records = [
        json.loads(line) for line in call(capsys, "predict", run, text, *greedy, "--json").out.splitlines()
    ]
    assert records[0] == {"line": 1, "prompt": "the cat", "text": continued[0]}
    assert records[1] == {"line": 2}
    streamed = call(capsys, "predict", run, "--prompt", "the cat", *greedy).out
    assert streamed.rstrip("\n") == continued[0].rstrip("\n")

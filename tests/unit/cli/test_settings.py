"""`-s KEY=VALUE` is one validated object: the same on the command line, in Python and in the server."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwise.decoding.generation import Generator
from headwise.engine.options import GenerationOptions, SearchOptions
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from language_model_run import make_language_model_run
from program import Call
from translation_server import make_pair, translating
from translator_run import ENGLISH, GERMAN, make_run

CHANGES: dict[str, Any] = {"no_repeat_ngram": 1, "max_length": 5, "patience": 2.0}
SETTINGS = [word for name, value in CHANGES.items() for word in ("-s", f"{name}={value}")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pair(tmp_path_factory.mktemp("runs"), "en", "de")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("patience=2", 2.0),
        ("patience=.inf", math.inf),
        ("temperature=1e-6", 1e-6),
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
    run: Path, sides: list[Path], tmp_path: Path, program: Call
) -> None:
    translator = Translator.load(run)
    expected = [translation.text for translation in translator.translate(ENGLISH, **CHANGES)]
    assert expected != [translation.text for translation in translator.translate(ENGLISH)]
    assert program("translate", run, sides[0], *SETTINGS).out.splitlines() == expected
    out, test = tmp_path / "out", ("--source", sides[0], "--reference", sides[1])
    program("evaluate", run, *test, *SETTINGS, "-o", out).ok()
    assert out.read_text(encoding="utf-8").splitlines() == expected
    program("explain", run, "--text", ENGLISH[0], *SETTINGS, "-o", tmp_path / "a.json").ok()
    assert json.loads((tmp_path / "a.json").read_text())["hypotheses"][0]["text"] == expected[0]
    with translating([run], search=CHANGES) as address:
        request = {"texts": ENGLISH, "source": "en", "target": "de"}
        answer = httpx.post(f"{address}/v1/translate", json=request, timeout=60).json()
    assert [translation["text"] for translation in answer["translations"]] == expected


def test_evaluate_takes_an_ensemble(run: Path, sides: list[Path], tmp_path: Path, program: Call) -> None:
    other, out = make_run(tmp_path / "other", seed=1), tmp_path / "out"
    ensemble, test = Translator.load([run, other]), ("--source", sides[0], "--reference", sides[1])
    program("evaluate", run, "--with", other, *test, "-o", out).ok()
    texts = [translation.text for translation in ensemble.translate(ENGLISH)]
    assert out.read_text(encoding="utf-8").splitlines() == texts
    scored = program("evaluate", run, "--with", other, *test, "--per-line").out.splitlines()
    totals = [output.log_probability for output in ensemble.score(ENGLISH, GERMAN)]
    assert [float(line.split("\t")[0]) for line in scored] == pytest.approx(totals, abs=1e-4)


def test_a_language_model_continues_each_line(tmp_path: Path, program: Call) -> None:
    run, text = make_language_model_run(tmp_path / "lm"), tmp_path / "text"
    text.write_text("the cat\n\nsat on\n", encoding="utf-8")
    greedy = ("-s", "temperature=0", "-s", "max_tokens=12")
    generator, options = Generator.load(run), GenerationOptions(temperature=0, max_tokens=12)
    prompts = ("the cat", "", "sat on")
    continued = [prompt and prompt + generator.generate(prompt, options)[0] for prompt in prompts]
    lines = program("predict", run, text, *greedy).out.split("\n")[:-1]
    assert lines == [" ".join(line.splitlines()) for line in continued]
    first, second, _ = program("predict", run, text, *greedy, "--json").records
    assert first == {"line": 1, "prompt": "the cat", "text": continued[0]}
    assert second == {"line": 2}
    streamed = program("predict", run, "--prompt", "the cat", *greedy).out
    assert streamed.rstrip("\n") == continued[0].rstrip("\n")

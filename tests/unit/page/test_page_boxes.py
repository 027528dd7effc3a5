"""The boxes of a model over HTTP and on the command line: the library's numbers, and one sentence for a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from starlette.testclient import TestClient

from headwise.analysis.boxes.architecture import architecture, box_of
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.main import run as command_line
from headwise.engine.translator import Translator
from headwise.page.application import page_app
from headwise.page.runs import PageRun
from image_run import make_image_run
from language_model_run import make_language_model_run
from translator_run import ENGLISH

TEXT = ENGLISH[0]


@pytest.fixture(scope="module")
def tracer(run: Path) -> TranslationTracer:
    return TranslationTracer(Translator.load(run, device="cpu"))


def test_a_box_is_the_librarys(client: TestClient, tracer: TranslationTracer) -> None:
    target = [17, 40, 9, 23, 3]
    question = {"run": "small", "text": TEXT, "target": target, "box": "decoder.self-attention"}
    answer = client.post("/api/box", json=question | {"layer": 1, "position": 2}).json()
    expected = box_of(tracer.record(TEXT, target), "decoder.self-attention", 1, 2)
    assert (answer["title"], answer["position"]) == ("Decoder layer 2, self-attention", 2)
    for shown, step in zip(answer["steps"], expected.steps, strict=True):
        assert (shown["name"], shown["formula"], shown["sentence"]) == (
            step.name,
            step.formula,
            step.sentence,
        )
        for vector in shown["vectors"]:
            np.testing.assert_array_equal(np.float32(vector["values"]), step.vector(vector["label"]))
    scores = np.array(answer["steps"][2]["grids"][0]["values"])
    assert (scores[:, 3:] == None).all()  # noqa: E711  (masked keys, whose score is -∞)
    packed = client.post("/api/box", json=question | {"arrays": "packed"}).json()
    assert packed["steps"][0]["vectors"][0]["values"]["shape"] == [16]


def test_the_boxes_are_the_librarys(client: TestClient, tracer: TranslationTracer) -> None:
    answer = client.post("/api/boxes", json={"run": "small", "text": TEXT, "target": "Ein Mann"}).json()
    expected = architecture(tracer.record(TEXT, "Ein Mann"))
    assert [box["name"] for box in answer["boxes"]] == [box.name for box in expected.boxes]
    assert [box["parameters"] for box in answer["boxes"]] == [box.parameters for box in expected.boxes]
    assert answer["pieces"]["decoder"] == list(expected.pieces["decoder"])


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"box": "encoder.attention"}, 400, "box: expected one of this model's (encoder.embedding, "),
        ({"layer": 2}, 400, "layer: expected a number from 1 to 2, found 3"),
        ({"position": 50}, 400, "found 51"),
        ({"temperature": 0}, 422, "temperature: input should be greater than or equal to"),
        ({"text": " "}, 400, "expected a text to look into, found an empty one"),
    ],
)
def test_a_mistake_is_one_sentence(client: TestClient, change: dict[str, Any], status: int, sentence: str) -> None:
    question = {"run": "small", "text": TEXT, "target": "Ein", "box": "encoder.self-attention"}
    answer = client.post("/api/box", json=question | change)
    assert (answer.status_code, sentence in answer.json()["error"]) == (status, True), answer.json()


def explain(run: Path, *more: str) -> int:
    return command_line(["explain", str(run), "--text", TEXT, "--device", "cpu", *more])


def test_the_terminal_has_the_steps(run: Path, tracer: TranslationTracer, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--box", "encoder.feed-forward", "--layer", "2", "--position", "3"]
    assert explain(run, *options) == 0
    printed = capsys.readouterr().out
    target = tracer.trace(TEXT).forced
    assert target is not None
    box = box_of(tracer.record(TEXT, target.target.ids), "encoder.feed-forward", 1, 2)
    assert "Encoder layer 2, feed-forward network, token 3 of " in printed
    for step in box.steps:
        assert step.sentence in printed
    numbers = " ".join(f"{value:.4f}" for value in box.output[:8])
    assert f"FFN(x)  {numbers} …" in printed


def test_the_json_has_all_numbers(run: Path, tracer: TranslationTracer, tmp_path: Path) -> None:
    assert explain(run, "--box", "softmax", "--temperature", "0.5", "-o", str(tmp_path / "box.json")) == 0
    box = json.loads((tmp_path / "box.json").read_text())
    z, divided = (np.array(vector["values"]) for vector in box["steps"][0]["vectors"])
    np.testing.assert_allclose(z / 0.5, divided, rtol=1e-6)
    assert explain(run, "--boxes", "-o", str(tmp_path / "boxes.json")) == 0
    boxes = json.loads((tmp_path / "boxes.json").read_text())
    total = sum(p.numel() for p in tracer.trained.parameters())
    assert sum(part["parameters"] for part in boxes["parts"]) == total


def test_the_terminal_lists_the_boxes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(run, "--boxes") == 0
    printed = capsys.readouterr().out
    assert "decoder.cross-attention.add-norm" in printed
    assert printed.splitlines()[-1].count("100.0%") == 2


# ------------------------------------------------------------------------------------------ models with one stack


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")
    folder = tmp_path_factory.mktemp("others")
    return {
        "writer": make_language_model_run(folder / "writer"),
        "digits": make_image_run(folder / "digits", "image_classification", patch=2),
        "pairs": make_image_run(folder / "pairs", "image_text", patch=4, width=16),
    }


def test_a_language_model_and_a_classifier_answer(others: dict[str, Path]) -> None:
    app = page_app(PageRun.open_all([*others.values()], "cpu"))
    client = TestClient(app, base_url="http://localhost")
    can = {name: client.get(f"/api/run?run={name}").json()["can"]["boxes"] for name in others}
    assert can == {"writer": True, "digits": True, "pairs": False}
    text = {"run": "writer", "text": "the", "target": [7, 8, 9]}
    boxes = client.post("/api/boxes", json=text).json()
    assert [*boxes["pieces"]] == ["decoder"]
    box = client.post("/api/box", json=text | {"box": "softmax", "position": 2}).json()
    assert len(box["steps"]) == 3
    image = {"run": "digits", "image": 5}
    assert client.post("/api/boxes", json=image).json()["pieces"]["pooled"] == ["image"]
    changed = image | {"interventions": ["no-ffn:*.*"], "box": "encoder.feed-forward"}
    assert client.post("/api/box", json=changed).json()["steps"][0]["formula"] == "FFN(x) = 0"
    for mistake, sentence in (
        ({"run": "writer", "text": "the"}, "target: expected a text, or ids as a trace has them, found none"),
        ({"run": "digits", "image": 999_999}, "image: expected a number below"),
        ({"run": "pairs"}, "pairs: expected a run with boxes, found one of task image_text"),
    ):
        answer = client.post("/api/boxes", json=mistake)
        assert answer.status_code == 400
        assert sentence in answer.json()["error"]


def test_the_command_line_takes_their_runs(others: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    writer, digits = (["explain", str(others[name]), "--device", "cpu"] for name in ("writer", "digits"))
    assert command_line([*writer, "--text", "the", "--do", "silence:decoder.1.1"]) == 0
    assert "compared with the translation without interventions" in capsys.readouterr().out
    assert command_line([*digits, "--row", "2", "--box", "classifier"]) == 0
    assert "Classifier, token 1 of 1: 'image'" in capsys.readouterr().out

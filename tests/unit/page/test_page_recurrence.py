"""The comparison of recurrence and attention over HTTP and on the command line: the library's numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from starlette.testclient import TestClient

from headwise.analysis.interventions import parse_interventions
from headwise.analysis.recurrence.comparing import compare
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.main import run as command_line
from headwise.engine.translator import Translator
from translator_run import ENGLISH

TEXT = ENGLISH[0]


def test_the_comparison_is_the_librarys(client: TestClient, run: Path) -> None:
    changes = ["no-ffn:*.*"]
    question = {"run": "small", "text": TEXT, "radius": 1.5, "interventions": changes}
    answer = client.post("/api/recurrence", json=question).json()
    tracer = TranslationTracer(Translator.load(run, device="cpu"))
    expected = compare(tracer, TEXT, 1.5, parse_interventions(changes))
    assert answer["pieces"] == list(expected.pieces)
    for shown, network in zip(answer["networks"], expected.networks, strict=True):
        assert shown["title"] == network.title
        for name in ("states", "kept", "gradient"):
            np.testing.assert_allclose(shown[name], getattr(network, name), rtol=1e-6)
    packed = client.post("/api/recurrence", json=question | {"arrays": "packed"}).json()
    assert packed["networks"][2]["gradient"]["shape"] == [64]


def test_times_are_of_the_width_asked_for(client: TestClient) -> None:
    answer = client.post("/api/times", json={"run": "small", "width": 8}).json()
    assert answer["width"] == 8
    assert [len(row["milliseconds"]) for row in answer["rows"]] == [len(answer["lengths"])] * 3


@pytest.mark.parametrize(
    ("path", "change", "status", "sentence"),
    [
        ("recurrence", {"text": " "}, 400, "expected a text to look into, found an empty one"),
        ("recurrence", {"radius": 5}, 422, "radius: input should be less than or equal to 4"),
        ("times", {"width": 4096}, 422, "width: input should be less than or equal to 128"),
        ("times", {"run": "other"}, 404, "run: expected one of small, found 'other'"),
    ],
)
def test_a_mistake_is_one_sentence(
    client: TestClient, path: str, change: dict[str, Any], status: int, sentence: str
) -> None:
    question = {"run": "small", **({"text": TEXT} if path == "recurrence" else {})}
    answer = client.post(f"/api/{path}", json=question | change)
    assert (answer.status_code, sentence in answer.json()["error"]) == (status, True), answer.json()


def explain(run: Path, *more: str) -> int:
    return command_line(["explain", str(run), "--text", TEXT, "--device", "cpu", *more])


def test_the_command_prints_and_writes_it(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(run, "--recurrence", "--radius", "3", "-o", str(tmp_path / "out.json")) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    names = [network["name"] for network in found["networks"]]
    assert explain(run, "--recurrence", "--radius", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    for network in found["networks"]:
        row = next(line for line in lines if line.startswith(f"  {network['title']} "))
        gradient = network["gradient"]
        shown = [float(cell) for cell in row.removeprefix(f"  {network['title']}").split() if cell != "–"]
        distances = [k for k in (0, 1, 2, 4, 8, 16, 32, 63) if k < len(gradient)]
        np.testing.assert_allclose(shown, [gradient[k] for k in distances], rtol=0.06)
    assert names[0] == "own"
    assert found["times"]["width"] == found["width"] == 16

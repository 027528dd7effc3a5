"""The JSON API without a browser: its responses and its error messages."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx
from starlette.testclient import TestClient

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.analysis.viewer import open_viewer
from headwise.cli.main import run as command_line
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.errors import HeadwiseError
from headwise.page.application import page_app
from headwise.page.request_queue import RequestQueue
from headwise.page.runs import PageRun
from headwise.web.errors import QueueFull
from headwise.web.guard import MOST_BYTES
from headwise.web.server import listen
from image_run import make_image_run
from translator_run import ENGLISH, make_run


def client_of(run: Path) -> TestClient:
    return TestClient(page_app(PageRun.open_all([run], "cpu")), base_url="http://localhost")


def post(client: TestClient, path: str, **question: Any) -> httpx.Response:
    return client.post(path, json=question)


def test_a_trace_is_the_librarys(client: TestClient, run: Path) -> None:
    tracer = TranslationTracer(Translator.load(run, device="cpu"))
    expected = tracer.trace(ENGLISH[0], beam=2).to_json()
    answer = post(client, "/api/trace", run="small", text=ENGLISH[0], beam=2).json()
    assert answer == json.loads(json.dumps(expected))
    packed = post(client, "/api/trace", run="small", text=ENGLISH[0], beam=2, arrays="packed").json()
    array = packed["forced"]["attention"]["cross"]
    values = np.frombuffer(base64.b64decode(array["float32"]), "<f4").reshape(array["shape"])
    assert np.abs(values - np.array(expected["forced"]["attention"]["cross"])).max() <= 5e-7
    forced = post(client, "/api/force", run="small", text=ENGLISH[0], target=expected["forced"]["target"]["ids"]).json()
    assert forced["log_probability"] == expected["forced"]["log_probability"]


def test_a_run_says_what_it_can_do(client: TestClient) -> None:
    answer = client.get("/api/run?run=small").json()
    assert [name for name, can in answer["can"].items() if can] == [
        "translate",
        "read",
        "products",
        "steps",
        "boxes",
        "switches",
        "recurrence",
        "evidence",
        "metrics",
    ]
    assert answer["parts"]["cross"] == {"layers": 2, "heads": 2, "products": True}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")
    return make_image_run(tmp_path_factory.mktemp("runs") / "digits", "image_classification", patch=2)


def test_an_image_is_looked_at_as_the_library_does(digits: Path) -> None:
    client = client_of(digits)
    answer = client.get("/api/run?run=digits").json()
    assert [name for name, can in answer["can"].items() if can] == ["boxes", "vision", "metrics"]
    assert (answer["images"], answer["shape"], answer["parts"]) == (
        599,
        [1, 8, 8],
        {"encoder": {"layers": 2, "heads": 2}},
    )
    viewer = open_viewer(digits, Config.load(digits / "config.yaml"), "cpu")
    example = viewer.held_out(7)
    expected = viewer.view(example.pixels, "")
    patches = post(client, "/api/patches", run="digits", image=7).json()
    assert np.abs(np.array(patches["attention"]) - expected.seen.attention).max() <= 5.1e-7
    assert np.array(patches["pixels"]).shape == (1, 8, 8)
    assert patches["truth"] == example.truth
    size = "pixels: expected 64 bytes (channels, height, width: (1, 8, 8)), found"
    for question, sentence in (
        ({"image": 599}, "image: expected a number below 599, found 599"),
        ({"pixels": "AAAA"}, f"{size} 3"),
        ({"pixels": "?"}, "pixels: expected base64, found something else"),
        # As many as an imported ViT reads, whose page has no other images than the reader's own.
        ({"pixels": base64.b64encode(bytes(3 * 224 * 224)).decode()}, f"{size} 150528"),
    ):
        answer = post(client, "/api/patches", run="digits", **question)
        assert (answer.status_code, answer.json()["error"]) == (400, sentence)
    assert (
        "expected a run of the task translation" in post(client, "/api/trace", run="digits", text="a").json()["error"]
    )


def test_without_its_images_a_run_still_looks_at_others(digits: Path, tmp_path: Path) -> None:
    shutil.copytree(digits, tmp_path / "digits", ignore=shutil.ignore_patterns("prepared"))
    client = client_of(tmp_path / "digits")
    assert client.get("/api/run?run=digits").json()["images"] == 0
    assert "prepared" in post(client, "/api/patches", run="digits").json()["error"]
    pixels = base64.b64encode(bytes(range(64))).decode()
    assert len(post(client, "/api/patches", run="digits", pixels=pixels).json()["probabilities"]) == 10


MISTAKES = [
    (404, {"run": "other", "text": "a"}, "run: expected one of small, found 'other'"),
    (422, {"run": "small"}, "text: field required"),
    (422, {"run": "small", "text": "a" * 5001}, "text: string should have at most 5000 characters"),
    (422, {"run": "small", "text": "a", "beam": 17}, "beam: input should be less than or equal to 16"),
    (422, {"run": "small", "text": "a", "alpah": 1}, "alpah: extra inputs are not permitted"),
    (
        400,
        {"run": "small", "text": "a", "interventions": ["silence:cross.9.1"]},
        "expected a layer from 1 to 2",
    ),
    (
        400,
        {"run": "small", "text": "a", "interventions": ["word:0:b"] * 9},
        "at most 8 forced words, found 9",
    ),
]


@pytest.mark.parametrize(("status", "question", "sentence"), MISTAKES, ids=[m[2][:24] for m in MISTAKES])
def test_a_mistake_is_one_sentence(client: TestClient, status: int, question: dict[str, Any], sentence: str) -> None:
    answer = post(client, "/api/trace", **question)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_what_is_no_json_and_what_is_too_long_is_refused(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    assert client.post("/api/trace", content=b"{", headers=headers).status_code == 422
    assert client.post("/api/trace", content=b" " * (MOST_BYTES + 1), headers=headers).status_code == 413
    assert client.get("/api/nothing").status_code == 404
    assert client.get("/api/trace").json() == {"error": "/api/trace: expected POST, found GET"}
    assert client.get("/nothing").json() == {"error": "there is nothing at /nothing"}
    assert client.get("/../app.py").status_code == 404


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"run": "small", "text": "a", "beam": ' + b"9" * 5_000 + b"}", "a number of 5,000 digits"),
        (b"[" * 100_000, "lists or objects more than 64 deep inside each other"),
        (b'{"run": "small", "text": "a", "alpha": NaN}', "NaN, which is no finite number"),
        (b'{"run": "small", "text": "\\ud83d"}', "half of a surrogate pair"),
        (b'{"run": "small", "run": "other", "text": "a"}', "the name 'run' twice in one object"),
        (b'{"run": "small", "text": "\xff"}', "bytes that aren't UTF-8 text"),
    ],
    ids=["digits", "depth", "nan", "surrogate", "twice", "bytes"],
)
def test_a_body_that_is_not_sound_is_one_sentence(client: TestClient, body: bytes, sentence: str) -> None:
    answer = client.post("/api/trace", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(f"request: expected JSON, found {sentence}")


def test_the_page_and_its_guard(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text
    assert client.get("/js/main.js").headers["content-type"].startswith("text/javascript")


def test_a_run_in_training_has_curves_and_no_model(tmp_path: Path) -> None:
    run = make_run(tmp_path / "young")
    (run / "model.safetensors").unlink()
    (run / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": NaN}\n{"kind": "tra')
    client = client_of(run)
    assert client.get("/api/run?run=young").json()["can"]["translate"] is False
    curves = client.get("/api/metrics?run=young").json()
    assert curves["records"] == [{"kind": "train", "step": 1, "loss": None}]
    assert curves["going_on"] is True
    answer = post(client, "/api/trace", run="young", text="a")
    assert answer.status_code == 409
    assert "still in training" in answer.json()["error"]


def test_runs_of_one_name_get_names_of_their_own(run: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "small")
    assert list(PageRun.open_all([run, other], "cpu")) == ["small", "small-2"]


def test_one_request_at_a_time_in_order_and_none_for_nobody() -> None:
    done: list[int] = []

    class Caller:
        def __init__(self, gone: bool = False) -> None:
            self.gone = gone

        async def is_disconnected(self) -> bool:
            return self.gone

    async def many() -> list[Any]:
        queue = RequestQueue(most=3)
        requests: Any = [Caller(), Caller(gone=True), Caller(), Caller()]
        jobs = [queue.serve(request, lambda n=n: done.append(n)) for n, request in enumerate(requests)]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        assert queue.idle
        return results

    results = asyncio.run(many())
    assert done == [0, 2]
    assert [type(result).__name__ for result in results] == [
        "NoneType",
        "ClientGone",
        "NoneType",
        "QueueFull",
    ]
    assert isinstance(results[3], QueueFull)


def test_the_command_names_what_is_wrong(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert command_line(["serve", str(run), "--port", str(port)]) == 2
        assert f"--port {port}: expected a free port, found that address already in use" in capsys.readouterr().err
    config = (run / "config.yaml").read_text().replace("task: translation", "task: juggling")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.yaml").write_text(config)
    assert command_line(["serve", str(tmp_path / "odd")]) == 2
    assert "juggling" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["203.0.113.1", "lab..example", "x" * 64])
def test_a_host_that_is_not_here_is_named(host: str) -> None:
    with pytest.raises(HeadwiseError, match=f"--host {host} --port 0: expected a free port"):
        listen(host, 0)

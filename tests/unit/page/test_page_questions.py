"""Any request to the API is answered or refused with one sentence, and never fails the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from headwise.page.application import page_app
from headwise.page.runs import PageRun
from language_model_run import make_language_model_run
from translator_run import ENGLISH, make_run


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Starlette:
    folder = tmp_path_factory.mktemp("runs")
    runs = [make_run(folder / "small"), make_language_model_run(folder / "writer")]
    return page_app(PageRun.open_all(runs, "cpu"))


Asker = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def ask(app: Starlette) -> Asker:
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)

    def ask(method: str, path: str, body: bytes = b"") -> httpx.Response:
        answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
        context = (path, body[:500], answer.text[:500])
        assert answer.status_code in (200, 400, 404, 405, 409, 413, 422), context
        if answer.status_code != 200:
            sentence = answer.json()["error"]
            assert len(sentence.splitlines()) == 1
            assert len(sentence) < 500
        return answer

    return ask


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (f"shuffle:cross.1.1@{'9' * 25}", "expected numbers of at most 9 digits, found one of 25"),
        (f"shuffle:cross.1.1@-{'9' * 25}", "expected numbers of at most 9 digits, found one of 25"),
        (f"shift:cross.1.1@{'9' * 25}", "expected numbers of at most 9 digits, found one of 25"),
        (f"zero:cross.1.1@{'9' * 4400}", "expected numbers of at most 9 digits, found one of 4,400"),
        ("zero:cross.1.1@-1", "expected it written as in zero:cross.2.3 or zero:cross.2.3@4"),
        (f"silence:cross.{'9' * 25}.1", "expected numbers of at most 9 digits, found one of 25"),
        (f"silence:cross.1.{'9' * 4400}", "expected numbers of at most 9 digits, found one of 4,400"),
        (f"word:{'9' * 4400}:a", "expected numbers of at most 9 digits, found one of 4,400"),
        (f"word:{'9' * 9}:a", "expected a number up to"),
        (f"juggle:{'9' * 4400}", "expected one of silence"),
    ],
)
def test_huge_numbers_in_interventions_are_a_sentence(ask: Asker, change: str, sentence: str) -> None:
    question = {"run": "small", "text": ENGLISH[0], "interventions": [change]}
    answer = ask("POST", "/api/trace", json.dumps(question).encode())
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_the_largest_numbers_that_may_be_are_answered(ask: Asker) -> None:
    for change in (
        "shuffle:cross.*.*@999999999",
        "shuffle:cross.*.*@-999999999",
        "shift:cross.1.1@-999999999",
    ):
        question = {"run": "small", "text": ENGLISH[0], "interventions": [change], "beam": 1}
        assert ask("POST", "/api/trace", json.dumps(question).encode()).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"run": ' * 30_000,
        b'{"run": "small", "text": "a", "beam": ' + b"9" * 5_000 + b"}",
        b'{"run": "small", "text": "a", "alpha": NaN}',
        b'{"run": "small", "text": "a", "alpha": -Infinity}',
        b'{"run": "small", "text": "a", "alpha": 1e999}',
        b'{"run": "small", "text": "\\ud800"}',
        b'{"run": "\\ud800", "text": "a"}',
        b'{"run": "small", "text": "a", "\\ud800": 1}',
        b'{"run": "small", "text": "a", "' + b"a" * 100_000 + b'": 1}',
        b'{"run": "small", "text": "a", "a\\nb": 1}',
        b"\xff\xfe{}",
        b"null",
        b"",
    ],
    ids=range(14),
)
def test_damaged_and_deep_json_is_a_sentence(ask: Asker, body: bytes) -> None:
    assert ask("POST", "/api/trace", body).status_code in (400, 422)


QUESTIONS: dict[str, dict[str, Any]] = {
    "/api/trace": {"run": "small", "text": ENGLISH[0], "beam": 2, "alpha": 0.6, "interventions": []},
    "/api/force": {"run": "small", "text": ENGLISH[0], "target": "Ein", "interventions": []},
    "/api/products": {
        **{"run": "small", "text": ENGLISH[0], "target": [5, 6, 3]},
        **{"part": "cross", "layer": 0, "head": 0, "query": 0},
    },
    "/api/boxes": {"run": "small", "text": ENGLISH[0], "target": "Ein", "interventions": []},
    "/api/box": {
        **{"run": "small", "text": ENGLISH[0], "target": [5, 6, 3], "interventions": []},
        **{"box": "softmax", "layer": None, "position": 0, "temperature": 1.0},
    },
    "/api/steps": {"run": "small", "text": ENGLISH[0], "target": [5, 6, 3], "alternatives": 3},
    "/api/recurrence": {"run": "small", "text": ENGLISH[0], "radius": 1.5, "interventions": []},
    "/api/times": {"run": "small", "width": 16},
    "/api/next": {"run": "writer", "text": "a", "temperature": 1.0, "top_k": 0, "top_p": 1.0},
    "/api/continue": {"run": "writer", "text": "a", "tokens": 2, "seed": 1, "top_p": 0.5},
    "/api/patches": {"run": "small", "image": 0, "pixels": None, "caption": "", "interventions": []},
}
NUMBERS = [0, -1, 1, 3, 2**31, 2**63, 2**64, -(10**25), 10**400, 0.5, -0.0, 1e-320, 1e308, "NaN", True]
ODD = [float("nan"), float("inf"), -float("inf")]
KINDS = (
    *(
        "silence",
        "uniform",
        "zero",
        "shuffle",
        "shift",
        "prefix",
        "word",
        "only",
        "temperature",
        "no-scaling",
    ),
)
LAYER_KINDS = (*("no-residual", "no-norm", "no-ffn", "no-mask", "no-positions", "shuffle-positions", "checkpoint"),)

change = st.one_of(
    st.builds(
        "{}:{}.{}.{}{}".format,
        st.sampled_from(KINDS),
        st.sampled_from(["encoder", "decoder", "cross", "*"]),
        st.sampled_from(["*", "1", "2", "3", "0", "9" * 30]),
        st.sampled_from(["*", "1", "2", "99", "9" * 5000]),
        st.sampled_from(["", "@0", "@-1", "@3", "@" + "9" * 9, "@" + "9" * 25, "@-" + "9" * 25]),
    ),
    st.builds(
        "{}:{}{}{}".format,
        st.sampled_from(LAYER_KINDS),
        st.sampled_from(["encoder", "decoder", "*", "0", "9" * 30]),
        st.sampled_from(["", ".*", ".1", ".3"]),
        st.sampled_from(["", "@0", "@5", "@" + "9" * 9, "@" + "9" * 25]),
    ),
    st.builds("{}:{}".format, st.sampled_from(KINDS), st.text(max_size=8)),
    st.builds("word:{}:{}".format, st.integers(-1, 10**12), st.text(min_size=1, max_size=5)),
)
value = st.recursive(
    st.one_of(st.none(), st.sampled_from([*NUMBERS, *ODD]), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_question_fails_the_server(ask: Asker, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(QUESTIONS)))
    question = dict(QUESTIONS[path])
    for name in data.draw(st.lists(st.sampled_from(sorted(question)), max_size=2, unique=True)):
        question[name] = data.draw(st.lists(change, max_size=4) if name == "interventions" else value)
    if data.draw(st.booleans()):
        question[data.draw(st.text(max_size=6))] = data.draw(value)
    ask("POST", path, json.dumps(question).encode())


def test_every_route_that_reads_a_question_is_tried(app: Starlette) -> None:
    document = app.state.openapi()
    posted = {path for path, methods in document["paths"].items() if "post" in methods}
    assert posted == set(QUESTIONS)
    for path, question in QUESTIONS.items():
        reference = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        name = reference["schema"]["$ref"].rsplit("/", 1)[1]
        assert set(question) <= set(document["components"]["schemas"][name]["properties"])

"""The service: deadlines, a full queue, clients that leave, the end of the server, and languages of runs."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx

from headwise.analysis.interventions import parse_interventions
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.base import SearchSentence
from headwise.engine.scheduling.load import Load
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.nn.recording import recording
from headwise.page.runs import PageRun
from headwise.page.views.translation import TranslationView
from headwise.serve.production import Production, find_model, given_languages
from headwise.serve.translation import documents
from headwise.serve.translation.document_store import DocumentStore
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.translation.models import Model, ServedModels
from headwise.serve.translation.service import Service, TranslationJob
from headwise.web.errors import ServiceError
from serve_sockets import connect, serving
from translation_server import make_pair, production_of
from translator_run import ENGLISH, make_run
from waiting import until


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pair(tmp_path_factory.mktemp("runs"), "en", "de")


class Stuck:
    """A scheduler that finishes nothing until it is told to."""

    def __init__(self, model: Model, tokens_per_second: float = 0.0) -> None:
        self._real, self._rate = model.scheduler, tokens_per_second
        self.submitted: list[tuple[SearchSentence, Future[Any]]] = []
        self.arrived = threading.Event()

    def submit(self, sentence: SearchSentence, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.submitted.append((sentence, future))
        self.arrived.set()
        return future

    @property
    def load(self) -> Load:
        waiting = [sentence.source for sentence, future in self.submitted if not future.done()]
        return Load(len(waiting), sum(map(len, waiting)), 0, 0, self._rate)

    def go_on(self) -> None:
        for sentence, future in self.submitted:
            if not future.cancelled():
                future.set_result(self._real.submit(sentence).result())

    def close(self, *, finish: bool) -> None:
        self._real.close(finish=finish)


def stuck_service(run: Path, limits: ServiceLimits, rate: float = 0.0) -> tuple[Service, Stuck]:
    model = Model("m", "en", "de", Translator.load(run, device="cpu"))
    stuck = Stuck(model, rate)
    model.scheduler = stuck  # type: ignore[assignment]
    return Service(ServedModels([model]), limits), stuck


def job(*texts: str) -> TranslationJob:
    return TranslationJob(list(texts), "de", "en")


def test_files_are_read_one_at_a_time_beyond_their_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    reading: list[str] = []
    most: list[int] = []

    def slow(name: str, *_: object) -> None:
        reading.append(name)
        most.append(len(reading))
        time.sleep(0.3)
        reading.remove(name)

    async def read_three() -> None:
        kept = documents.Documents(Service(ServedModels([]), ServiceLimits(seconds=0.1)), DocumentStore())
        for number in range(3):
            with pytest.raises(ServiceError) as caught:
                await kept.read(f"{number}.txt", bytes, "de", "en")
            assert caught.value.status == 504
            await asyncio.sleep(0.05)
        await kept.close()

    monkeypatch.setattr(documents, "read_file", slow)
    asyncio.run(read_three())
    until(lambda: not reading)
    assert set(most) == {1}


def test_a_document_that_the_servers_end_interrupts_is_given_back(run: Path) -> None:
    given_back: list[str] = []

    async def end_while_it_is_translated() -> None:
        service, stuck = stuck_service(run, ServiceLimits())
        kept = documents.Documents(service, DocumentStore())
        file = await kept.read("a.txt", ENGLISH[0].encode, "de", "en")
        kept.start("a.txt", file, job(), file.characters, lambda: given_back.append("a.txt"))
        while not stuck.arrived.is_set():
            await asyncio.sleep(0.01)
        await kept.close()

    asyncio.run(end_while_it_is_translated())
    assert given_back == ["a.txt"]


def test_scores_are_computed_one_at_a_time_beyond_their_deadline(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, _ = stuck_service(run, ServiceLimits(seconds=0.1))
    (model,) = service.models.all
    running: list[int] = []
    most: list[int] = []

    def slow(*_: object, **named: object) -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.3)
        running.pop()

    async def score_three() -> None:
        for _ in range(3):
            with pytest.raises(ServiceError) as caught:
                await service.score(model, ENGLISH[:1], ["Ein Mann."], None)
            assert caught.value.status == 504

    monkeypatch.setattr(model.translator, "score", slow)
    asyncio.run(score_three())
    until(lambda: not running)
    assert set(most) == {1}


def test_a_deadline_frees_the_sentences(run: Path) -> None:
    service, stuck = stuck_service(run, ServiceLimits(seconds=0.2))
    with pytest.raises(ServiceError) as caught:
        asyncio.run(service.translate(job(*ENGLISH)))
    assert caught.value.status == 504
    assert len(stuck.submitted) == len(ENGLISH)
    assert all(future.cancelled() for _, future in stuck.submitted)
    assert service.accepted == 0


def test_a_full_queue_says_when_to_come_back(run: Path) -> None:
    service, stuck = stuck_service(run, ServiceLimits(queue=8, seconds=60), rate=10.0)

    async def talk() -> None:
        first = asyncio.ensure_future(service.translate(job(*ENGLISH)))
        while not stuck.arrived.is_set():
            await asyncio.sleep(0.01)
        with pytest.raises(ServiceError) as caught:
            await service.translate(job(*ENGLISH))
        tokens = sum(len(sentence.source) for sentence, _ in stuck.submitted)
        assert caught.value.status == 429
        assert caught.value.retry_after == -(-tokens // 10)
        second = asyncio.ensure_future(service.translate(job(ENGLISH[0])))  # there is room for one
        while len(stuck.submitted) == len(ENGLISH):
            await asyncio.sleep(0.01)
        stuck.go_on()
        assert len(await first) == len(ENGLISH)
        assert len(await second) == 1

    asyncio.run(talk())
    assert service.accepted == 0


def test_a_client_that_leaves_frees_its_sentences(run: Path) -> None:
    app, production = production_of([run])
    (model,) = production.service.models.all
    stuck = Stuck(model)
    model.scheduler = stuck  # type: ignore[assignment]
    with serving(app) as port:
        body = b'{"q": "A dog.", "source": "en", "target": "de"}'
        head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        connection = connect(port, f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        assert stuck.arrived.wait(30)
        connection.close()
        until(stuck.submitted[0][1].cancelled)


def test_what_was_accepted_is_finished_at_the_end(run: Path) -> None:
    app, production = production_of([run])
    (model,) = production.service.models.all
    stuck = Stuck(model)
    model.scheduler = stuck  # type: ignore[assignment]
    answers: list[httpx.Response] = []

    def ask(port: int) -> None:
        fields = {"q": ENGLISH[0], "source": "en", "target": "de"}
        answers.append(httpx.post(f"http://127.0.0.1:{port}/translate", json=fields, timeout=60))

    with serving(app, finish=30) as port:
        client = threading.Thread(target=ask, args=(port,))
        client.start()
        assert stuck.arrived.wait(30)
        threading.Timer(0.5, stuck.go_on).start()  # after the server was told to end
    client.join()
    assert [answer.status_code for answer in answers] == [200]
    assert production.service.closing


def test_a_missing_language_is_said_and_given(tmp_path: Path) -> None:
    runs = PageRun.open_all([make_run(tmp_path / "a"), make_pair(tmp_path, "en", "fr")], "cpu")
    said: list[str] = []

    def find_models(options: list[str]) -> list[Model]:
        given = given_languages(options, runs)
        found = [find_model(run, given, said.append) for run in runs.values()]
        return [model for model in found if model is not None]

    models = find_models([])
    assert [(model.name, model.source, model.target) for model in models] == [("en-fr", "en", "fr")]
    (sentence,) = said
    assert "lacks data.source_language and data.target_language; --languages a=en-de sets them" in sentence
    for options in (["en-de"], ["a=en-de"]):
        given = find_models(options)
        assert [(model.source, model.target) for model in given] == [("en", "de"), ("en", "fr")]
    for options, message in (
        (["b=en-de"], "expected the name of a run"),
        (["a=english"], "expected two language codes"),
        (["en-de", "en-fr"], "expected one for each run"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_models(options)
    knowing = {"en-fr": runs["en-fr"]}
    assert given_languages(["en-fr"], knowing) == {"": ("en", "fr")}  # it says the same as the run
    with pytest.raises(ConfigError, match=r"expected NAME=en-de, as no run \(en-fr\) lacks its languages"):
        given_languages(["en-de"], knowing)
    for model in [*models]:
        model.scheduler.close(finish=True)


def test_the_page_doesnt_change_what_clients_get(run: Path) -> None:
    """An intervention on the page's model leaves the service's model as it is."""
    runs = PageRun.open_all([run], "cpu")
    production = Production(runs, say=lambda sentence: None)
    (model,) = production.service.models.all
    assert model.translator is runs["en-de"].translator()  # one model in memory for each engine
    changes = parse_interventions(["silence:cross.1.1", "uniform:cross.2.1"])
    with_alignment = TranslationJob(ENGLISH[:1], "de", "en", alignments=True)
    (before,) = asyncio.run(production.service.translate(with_alignment))
    tracer = runs["en-de"].view_as(TranslationView).model
    with tracer.model(changes), recording(pytorch_model(model.translator)):
        (after,) = asyncio.run(production.service.translate(with_alignment))
    assert before.text == after.text
    assert before.sentences[0].translation.outputs[0].alignment is not None
    assert before.sentences[0].translation.outputs[0] == after.sentences[0].translation.outputs[0]
    asyncio.run(production.close())


def test_a_client_that_leaves_before_its_body_is_whole_is_no_failure(run: Path) -> None:
    entries: list[dict[str, Any]] = []
    app, production = production_of([run], log=entries.append)
    with serving(app) as port:
        head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        with connect(port) as client:
            client.sendall(f'{head}Content-Length: 50\r\n\r\n{{"q": "A dog'.encode())
            time.sleep(0.2)  # so that the application waits for the rest
        until(lambda: entries)
    assert [(entry["status"], "failure" in entry) for entry in entries] == [(499, False)]
    assert production.service.accepted == 0

"""A run whose files change while it is served."""

from __future__ import annotations

import errno
import gc
import os
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import httpx

from headwise.engine.base import SearchSentence
from headwise.engine.translator import Translator
from headwise.page.runs import PageRun
from headwise.web import reloading, run_directories
from headwise.web.reloading import Reloader
from headwise.web.run_directories import RunDirectory
from serve_sockets import serving
from translation_server import make_pair, production_of
from translator_run import ENGLISH
from waiting import until


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "SECONDS", 0.05)


def replace(run: Path, other: Path) -> None:
    """Replace the model as training does: by a whole new file."""
    os.replace(other / "model.safetensors", run / "model.safetensors")


def translation(run: Path) -> str:
    return Translator.load(run, device="cpu").translate(ENGLISH[:1])[0].text


def ask(port: int) -> httpx.Response:
    fields = {"q": ENGLISH[0], "source": "en", "target": "de"}
    return httpx.post(f"http://127.0.0.1:{port}/translate", json=fields, timeout=60)


def test_a_changed_run_is_used_and_no_request_fails(tmp_path: Path) -> None:
    run, other = make_pair(tmp_path, "en", "de"), make_pair(tmp_path / "other", "en", "de", seed=1)
    before, after = translation(run), translation(other)
    assert before != after
    said: list[str] = []
    app, production = production_of([run], say=said.append)
    scheduler = production.service.models.all[0].scheduler
    answers: list[httpx.Response] = []
    stop = threading.Event()

    def keep_asking(port: int) -> None:
        while not stop.is_set():
            answers.append(ask(port))

    with serving(app) as port:
        clients = [threading.Thread(target=keep_asking, args=(port,)) for _ in range(3)]
        for client in clients:
            client.start()
        until(lambda: len(answers) > 5)
        replace(run, other)
        until(lambda: said)
        assert ask(port).json()["translatedText"] == after
        stop.set()
        for client in clients:
            client.join()
        fields = {"run": "en-de", "text": ENGLISH[0]}
        page = httpx.post(f"http://127.0.0.1:{port}/api/trace", json=fields, timeout=60).json()
    assert said == [f"{run}: has changed, and was loaded again"]
    assert {answer.status_code for answer in answers} == {200}
    assert page["hypotheses"][0]["text"] == after
    texts = [answer.json()["translatedText"] for answer in answers]
    assert set(texts) <= {before, after}
    assert texts[0] == before
    gc.collect()
    sentence = SearchSentence([5], production.service.models.all[0].translator.options)
    with pytest.raises(RuntimeError):  # the scheduler of the model from before is closed
        until(lambda: scheduler.submit(sentence) is None)


def test_a_run_that_changed_while_the_server_started_is_loaded_again(tmp_path: Path) -> None:
    run, other = make_pair(tmp_path, "en", "de"), make_pair(tmp_path / "other", "en", "de", seed=1)
    opened = PageRun.open_all([run], "cpu")
    replace(run, other)
    reloader = Reloader(opened, lambda sentence: None)
    assert reloader.changed() == []  # it may still be written
    assert reloader.changed() == [opened["en-de"]]
    assert reloader.changed() == []


def test_a_damaged_run_keeps_its_model_and_is_reported_once(tmp_path: Path) -> None:
    run, other = make_pair(tmp_path, "en", "de"), make_pair(tmp_path / "other", "en", "de", seed=1)
    before, after = translation(run), translation(other)
    said: list[str] = []
    app, _ = production_of([run], say=said.append)
    with serving(app) as port:
        (run / "model.safetensors").write_bytes(b"damaged")
        until(lambda: said)
        time.sleep(0.3)  # some more looks
        assert len(said) == 1
        assert "the model from before is still used, because of an error: " in said[0]
        assert ask(port).json()["translatedText"] == before
        replace(run, other)
        until(lambda: len(said) == 2)
        assert ask(port).json()["translatedText"] == after


def test_a_run_that_cannot_be_read_for_a_while_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = make_pair(tmp_path, "en", "de"), make_pair(tmp_path / "other", "en", "de", seed=1)
    after = translation(other)
    said: list[str] = []
    looks = threading.Event()

    def stale(path: Path) -> None:
        looks.set()
        raise OSError(errno.ESTALE, "Stale file handle")

    app, _ = production_of([run], say=said.append)
    with serving(app) as port:
        with monkeypatch.context() as unreadable:
            unreadable.setattr(run_directories, "find_model", stale)
            assert looks.wait(60)
        replace(run, other)
        until(lambda: said)
        assert ask(port).json()["translatedText"] == after


def test_a_run_for_which_there_is_no_memory_is_as_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = make_pair(tmp_path, "en", "de"), make_pair(tmp_path / "other", "en", "de", seed=1)
    before, after = translation(run), translation(other)
    said: list[str] = []

    def too_large(run: RunDirectory) -> None:
        raise MemoryError

    app, _ = production_of([run], say=said.append)
    with serving(app) as port:
        with monkeypatch.context() as full:
            full.setattr(RunDirectory, "reload", too_large)
            (run / "model.safetensors").touch()
            until(lambda: said)
        assert said[0].endswith("the model from before is still used, because of an error: MemoryError")
        assert ask(port).json()["translatedText"] == before
        replace(run, other)
        until(lambda: len(said) == 2)
        assert ask(port).json()["translatedText"] == after


@pytest.mark.filterwarnings("ignore::headwise.weights.UnfinishedRunWarning")
def test_a_run_in_training_is_taken_up_when_it_has_a_checkpoint(tmp_path: Path) -> None:
    run, other = make_pair(tmp_path, "en", "de"), make_pair(tmp_path / "other", "en", "de", seed=1)
    best, expected = translation(run), translation(other)
    (run / "model.safetensors").rename(tmp_path / "later")
    said: list[str] = []
    app, _ = production_of([run], say=said.append)
    assert said == [f"{run}: still in training; clients can use it as soon as it has a checkpoint"]
    with serving(app) as port:
        assert ask(port).status_code == 400  # its languages are not served
        checkpoint = run / "checkpoints" / "step-00000300"
        checkpoint.mkdir(parents=True)
        (tmp_path / "later").rename(checkpoint / "model.safetensors")
        (run / "best").write_text("step-00000300\n")
        until(lambda: len(said) == 2)
        assert ask(port).json()["translatedText"] == best
        replace(run, other)
        until(lambda: len(said) == 3)
        assert ask(port).json()["translatedText"] == expected
